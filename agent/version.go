package agent

// Version is the version of the agent, set by the linker at release.
var Version = "0.1.0-dev"
