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
	"github.com/mcpscope/mcpscope/test/message"
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
	g := &gatewayRun{printer: cli.Printer{Stdio: cli.Stdio{Err: errs}}, values: settings.Defaults()}
	if _, _, err := g.values.Parse(settings.Gateway, []string{"--session-set", "pids.max=9"}); err != nil {
		t.Fatal(err)
	}
	return g
}

// A gateway whose servers cannot be contained is not started.
func TestAGatewayThatIsNotStarted(t *testing.T) {
	var errs bytes.Buffer
	status := aGateway(t, &errs).fail([]string{"hermes"}, unix.EBUSY)
	want := message.Message{Status: cli.ExitOwnFailure, Begin: "cannot ", Word: `"hermes": device or resource busy`, Hint: "mcpscope gateway"}
	if problem := want.Problem(status, "", errs.String()); problem != "" {
		t.Error(problem)
	}
}

// A gateway that runs without what was expected says so before it starts.
func TestNotesOfAGateway(t *testing.T) {
	why := errors.New("there is no cgroup")
	for word, note := range map[string]func(*gatewayRun){
		"weaker":        func(g *gatewayRun) { g.noteWeaker("hermes", why) },
		"NOT contained": func(g *gatewayRun) { g.warnUncontained("hermes", why) },
		"pids.max=9":    func(g *gatewayRun) { g.noteNoSession("hermes", why) },
	} {
		var errs bytes.Buffer
		note(aGateway(t, &errs))
		line, _, _ := strings.Cut(errs.String(), "\n") // a hint depends on the host
		want := message.Message{Begin: "note: ", Word: word}
		if problem := want.Problem(cli.ExitOK, "", line+"\n"); problem != "" || !strings.Contains(line, `"hermes"`) || !strings.Contains(line, why.Error()) {
			t.Errorf("%s: %s", line, problem)
		}
	}
}
