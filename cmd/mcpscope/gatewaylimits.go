//go:build linux

package main

import "fmt"

// tryLimits says why servers can't be limited, "" if they can. It has a server of that kind run:
// once a gateway has started one, nothing but the server itself could be refused.
func (f *gatewayFlags) tryLimits() (why, hint string) {
	if len(f.limits.Files) == 0 || f.limits.BestEffort {
		return "", ""
	}
	flags := []string{"--slice", f.slice, "--limits=" + limitsStrict, fmt.Sprintf("--oom-group=%v", f.limits.OOMGroup)}
	for _, l := range f.limits.Files {
		flags = append(flags, "--set", l.String())
	}
	t := trial{Backend: f.backend, name: "limits"}
	out, err := t.run("/proc/self/exe", flags...)
	t.read(out)
	if t.Reason == "" && err != nil {
		t.Reason = err.Error()
	}
	return t.Reason, t.Remedy
}
