// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"errors"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Parts of a hint on a host that has servers or sessions.
var (
	namesBefore = regexp.MustCompile(`(?:running|sessions): [^;\n]*; `)
	namesAlone  = regexp.MustCompile(`mcpscope: hint: (?:running|sessions): [^;\n]*\n`)
)

// withoutNames removes the names of this host's servers and sessions from hints.
func withoutNames(text string) string {
	return namesAlone.ReplaceAllString(namesBefore.ReplaceAllString(text, ""), "")
}

// checkSaid runs command lines in process, and compares their statuses and their whole output.
func checkSaid(t *testing.T, wanted map[string]said) {
	t.Helper()
	for line, want := range wanted {
		got := say(strings.Fields(line)...)
		got.err = withoutNames(got.err)
		if got != want {
			t.Errorf("%s: %+v\nwant %+v", line, got, want)
		}
	}
}

// usage is the output of a command whose arguments have a mistake.
func usage(command, mistake string) said {
	return said{
		status: cli.ExitUsage,
		err:    "mcpscope: " + command + ": " + mistake + "\nmcpscope: hint: mcpscope help " + command + "\n",
	}
}

// failure is the output of a command that failed; hint may be "".
func failure(text, hint string) said {
	s := said{status: cli.ExitFailure, err: "mcpscope: cannot " + text + "\n"}
	if hint != "" {
		s.err += "mcpscope: hint: " + hint + "\n"
	}
	return s
}

func serverCalled(name, id string) *fleet.Listed {
	s := &fleet.Listed{Facts: protocol.Facts{Name: name}}
	s.Placed.ID = id
	return s
}

// Each server has its own line, on stdout or stderr, and one failure is enough for status 1.
func TestActionOnManyServers(t *testing.T) {
	servers := []*fleet.Listed{
		serverCalled("a\x1b", "aaaaaaaa"), serverCalled("b", "bbbbbbbb"), serverCalled("c", "cccccccc"),
	}
	suspend := serverAction{verb: "suspend", do: oneLine("suspended", nameAndID, func(s *fleet.Listed) error {
		switch s.Facts.Name {
		case "b":
			return errors.New("it is\nbusy")
		case "c":
			return &protocol.LimitError{Text: "set x", Step: "start it\nagain"}
		}
		return nil
	})}
	var out, errs bytes.Buffer
	stdio := cli.Stdio{Out: &out, Err: &errs}
	if status := suspend.runOn(&selection.Found{Servers: servers}, stdio); status != cli.ExitFailure {
		t.Errorf("status %d", status)
	}
	if got := out.String(); got != "suspended a? (aaaaaaaa)\n" {
		t.Errorf("stdout: %q", got)
	}
	lines := strings.SplitAfter(errs.String(), "\n")
	slices.Sort(lines) // the order of the servers is that of their results
	want := "mcpscope: cannot suspend b (bbbbbbbb): it is, busy\n" +
		"mcpscope: cannot suspend c (cccccccc): set x\n" +
		"mcpscope: hint: start it?again\n"
	if got := strings.Join(lines, ""); got != want {
		t.Errorf("stderr:\n%s\nwant\n%s", got, want)
	}
	if status := suspend.runOn(&selection.Found{Servers: servers[:1]}, stdio); status != cli.ExitOK {
		t.Errorf("without a failure: status %d", status)
	}
}

// A command that is interrupted while it freezes a server says that the server is frozen before it ends.
func TestInterruptedAction(t *testing.T) {
	received := make(chan os.Signal, 2)
	signal.Notify(received, unix.SIGINT) // this process has to go on
	defer signal.Stop(received)
	servers := []*fleet.Listed{serverCalled("a", "aaaaaaaa")}
	freeze := serverAction{verb: "freeze", do: oneLine("frozen", nameAndID, func(*fleet.Listed) error {
		err := unix.Kill(os.Getpid(), unix.SIGINT)
		<-received
		return err
	})}
	var out bytes.Buffer
	status := freeze.runToEnd(&selection.Found{Servers: servers}, cli.Stdio{Out: &out})
	if got := out.String(); status != cli.ExitOK || got != "frozen a (aaaaaaaa)\n" {
		t.Errorf("status %d; stdout: %q", status, got)
	}
	<-received // again, after the end
}
