// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// GatewayTrial is the result of a gateway that starts one server.
type GatewayTrial struct {
	Backend     protocol.Backend // of the server's group, or "" if it was not contained
	Controllers []string         // for its limits
	Reason      string
	Remedies    []string
}

// Commands of a trial: the gateway, and the name under which that starts Probe. A server that is called
// mcpscopectl would pass for a launcher.
const (
	GatewayProbeCommand = "gateway-probe"
	probeName           = "mcpscope-probe"
)

// TryGateway runs a gateway with one server. Only that proves that a filter can be installed here, and that a
// running process can be moved to a group. Gateway, server, watcher and guard have ended when it returns.
func TryGateway(by programs, b protocol.Backend) GatewayTrial {
	t := GatewayTrial{}
	if err := t.run(by, b); err != nil && t.Reason == "" {
		t.Reason = err.Error()
	}
	switch {
	case t.Reason != "":
		t.Backend = ""
	case t.Backend == "":
		t.Reason = "mcpscope gateway ended without a server"
	}
	if t.Reason != "" && len(t.Remedies) == 0 {
		t.Remedies = remedies(by, b)
	}
	return t
}

// run reads one pipe to its end: the watcher explains there, and holds it until it ends.
func (t *GatewayTrial) run(by programs, b protocol.Backend) error {
	ours, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ours.Close()
	stdin, hold, err := os.Pipe()
	if err == nil {
		defer hold.Close() // the server lives until then
		var gateway *os.Process
		gateway, err = by.startGateway(b, []*os.File{stdin, theirs, theirs, theirs})
		_ = stdin.Close()
		if err == nil {
			defer func() {
				_ = gateway.Kill() // it may have ended, and was not reaped yet
				_, _ = gateway.Wait()
			}()
		}
	}
	_ = theirs.Close()
	if err != nil {
		return err
	}
	_ = ours.SetReadDeadline(time.Now().Add(trialWithin)) // a pipe has deadlines
	for lines := bufio.NewReader(ours); ; {
		line, err := lines.ReadString('\n')
		if t.read(strings.TrimSuffix(line, "\n")) {
			_ = hold.Close()
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("mcpscope gateway did not end within %v", trialWithin)
		}
	}
}

// explained is a line about the server: it was taken, or why not.
var explained = regexp.MustCompile(`"` + probeName + `" ` +
	`(?:taken as \S+ \(([a-z-]+)\)|left: (?:it can't be contained: )?(.*)$)`)

// complaint is a line of mcpscope gateway about itself.
var complaint = regexp.MustCompile(`^mcpscope: (?:(hint): |cannot contain the servers of "[^"]*": )?(.*)$`)

// read reports whether the line decides about the server.
func (t *GatewayTrial) read(line string) bool {
	var found probed
	if json.Unmarshal([]byte(line), &found) == nil {
		t.Controllers = found.Controllers
		return false
	}
	if m := complaint.FindStringSubmatch(line); m != nil {
		switch {
		case m[1] != "":
			t.Remedies = append(t.Remedies, m[2])
		case !strings.HasPrefix(m[2], "note: "):
			t.Reason = m[2]
		}
		return false
	}
	m := explained.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	t.Backend, t.Reason = protocol.Backend(m[1]), m[2]
	return true
}

// startGateway starts one whose server is known by its name. Flags override settings files: limits could be
// too low for the server of a trial, and exceptions could leave it alone.
func (p programs) startGateway(b protocol.Backend, files []*os.File) (*os.Process, error) {
	argv := []string{
		cli.Runner, "gateway", "--require", "--backend", string(b), "--match", probeName, "--except", "",
		"--memory-max", "max", "--cpu-max", "max", "--pids-max", "max", "--explain", "fd:3",
		"--", p.server, GatewayProbeCommand,
	}
	how := &os.ProcAttr{Env: settings.ServerEnvironment(os.Environ()), Files: files}
	return os.StartProcess(p.runner, argv, how)
}

// remedies are those for the backends that do not work.
func remedies(by programs, b protocol.Backend) (all []string) {
	candidates := []protocol.Backend{b}
	if b == protocol.Auto {
		candidates = backend.Candidates()
	}
	for _, candidate := range candidates {
		if candidate == protocol.Tree { // no group
			continue
		}
		t := tryBackend(by, candidate)
		if t.Works {
			return nil // the reason is another
		}
		if t.Remedy != "" && !slices.Contains(all, t.Remedy) {
			all = append(all, t.Remedy)
		}
	}
	return all
}

// GatewayProbe is the gateway of a trial. Its server is Probe, with the same stdin.
func GatewayProbe(_ []string, to cli.Stdio) int {
	server := exec.Command("/proc/self/exe", ProbeCommand)
	server.Args[0] = probeName
	server.Stdin, server.Stdout, server.Stderr = os.Stdin, to.Out, to.Err
	if err := server.Run(); err != nil {
		return to.Cannot("start a server", err)
	}
	return cli.ExitOK
}
