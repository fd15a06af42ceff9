// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// A session has the name of its agent, also behind mcpscope run.
func TestAgentName(t *testing.T) {
	for line, want := range map[string]string{
		"claude": "claude",
		"/usr/bin/mcpscope run --idle-freeze 10m -- claude -c": "claude",
		"mcpscopectl run -- claude":                            "claude",
		"mcpscope run":                                         "mcpscope",
		"mcpscope run --no-such-flag -- claude":                "mcpscope",
	} {
		if got := agentName(strings.Fields(line)); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// aGateway is a gateway whose flags ask for a session with a limit.
func aGateway(t *testing.T, errs *bytes.Buffer) *gatewayRun {
	t.Helper()
	g := &gatewayRun{Printer: cli.Printer{Stdio: cli.Stdio{Err: errs}}, Values: settings.Defaults()}
	if _, _, err := g.Parse(settings.Gateway, []string{"--session-pids-max", "9"}); err != nil {
		t.Fatal(err)
	}
	return g
}

// A gateway whose servers cannot be contained is not started.
func TestAGatewayThatIsNotStarted(t *testing.T) {
	var errs bytes.Buffer
	status := aGateway(t, &errs).fail([]string{"hermes"}, unix.EBUSY)
	const want = "mcpscope: cannot contain the servers of \"hermes\": device or resource busy\n" +
		"mcpscope: hint: start it outside of mcpscope gateway, LXD and other programs with a seccomp listener\n"
	if status != cli.ExitOwnFailure || errs.String() != want {
		t.Errorf("status %d, %s, want %s", status, errs.String(), want)
	}
}

// A gateway that runs without what was expected says so before it starts.
func TestNotesOfAGateway(t *testing.T) {
	why := errors.New("there is no cgroup")
	for want, note := range map[string]func(*gatewayRun){
		`the servers of "hermes" are contained without cgroups, which is weaker: there is no cgroup`: func(g *gatewayRun) {
			g.noteWeaker("hermes", why)
		},
		cli.NotContained("hermes", why): func(g *gatewayRun) { g.warnUncontained("hermes", why) },
		`"hermes" and its servers are in no session, without pids.max=9: there is no cgroup`: func(g *gatewayRun) {
			g.noteNoSession("hermes", why)
		},
	} {
		var errs bytes.Buffer
		note(aGateway(t, &errs))
		if line, _, _ := strings.Cut(errs.String(), "\n"); line != "mcpscope: note: "+want { // a hint depends on the host
			t.Errorf("%s, want %s", errs.String(), want)
		}
	}
}
