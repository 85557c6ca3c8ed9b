package agent

// Version is the version of the agent; builds and packages read it here.
var Version = "0.2.0"
