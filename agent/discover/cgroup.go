package discover

import (
	"regexp"
	"strconv"
	"strings"
)

// parseCgroup finds the cgroup v2 line of /proc/PID/cgroup, "0::/path".
func parseCgroup(text string) string {
	for line := range strings.Lines(text) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			return strings.TrimSuffix(path, " (deleted)")
		}
	}
	return ""
}

// containerComponent matches a component of a cgroup path that stands for a
// container: docker-ID.scope, cri-containerd-ID.scope, crio-ID.scope,
// libpod-ID.scope (systemd driver), or the bare ID or crio-ID (cgroupfs driver). ECS has
// ids of its own form. A helper's scope, such as crio-conmon-ID.scope, is no
// container.
var containerComponent = regexp.MustCompile(
	`^(?:(?:docker|cri-containerd|containerd|crio|libpod)-)?([0-9a-f]{64}|[0-9a-f]{32}-[0-9]{1,12})(?:\.scope)?$`)

// containerOf is the id of the innermost container in /proc/PID/cgroup, "" if there is
// none: by the cgroup v2 tree, or where a host has containers in version 1 only, by those.
func containerOf(text string) string {
	if id := containerIn(parseCgroup(text)); id != "" {
		return id
	}
	for line := range strings.Lines(text) {
		if _, path, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ":/"); ok {
			if id := containerIn(path); id != "" {
				return id
			}
		}
	}
	return ""
}

func containerIn(cgroup string) string {
	components := strings.Split(cgroup, "/")
	for i := len(components) - 1; i >= 0; i-- {
		if m := containerComponent.FindStringSubmatch(components[i]); m != nil {
			return m[1]
		}
	}
	return ""
}

// unitOf is the innermost systemd service of a cgroup path, without
// ".service". A container's outer service is that of its engine, and
// user@1000.service is the manager of a user's services: neither counts.
func unitOf(cgroup string) string {
	components := strings.Split(cgroup, "/")
	for i := len(components) - 1; i >= 0; i-- {
		if containerComponent.MatchString(components[i]) {
			return ""
		}
		unit, ok := strings.CutSuffix(components[i], ".service")
		if ok && unit != "" && !strings.HasPrefix(unit, "user@") {
			return unescapeUnit(unit)
		}
	}
	return ""
}

// unescapeUnit undoes systemd's \x2d for characters that a unit's name cannot
// hold.
func unescapeUnit(unit string) string {
	if !strings.Contains(unit, `\x`) {
		return unit
	}
	var b strings.Builder
	for i := 0; i < len(unit); i++ {
		if strings.HasPrefix(unit[i:], `\x`) && len(unit) >= i+4 {
			if c, err := strconv.ParseUint(unit[i+2:i+4], 16, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(unit[i])
	}
	return b.String()
}

// launchers are units that start processes which are not theirs: a service
// that is run from a shell over ssh is not called "ssh".
var launchers = map[string]bool{
	"ssh": true, "sshd": true, "cron": true, "crond": true, "atd": true,
	"docker": true, "containerd": true, "crio": true, "podman": true, "kubelet": true, "supervisor": true,
}

// nameOfUnit is the service name that a unit gives, "" if none.
func nameOfUnit(unit string) string {
	if launchers[unit] {
		return ""
	}
	return unit
}
