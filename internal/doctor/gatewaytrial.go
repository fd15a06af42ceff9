// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/names"
)

// GatewayTrial is the result of a gateway that starts one server.
type GatewayTrial struct {
	Backend     names.Backend // of the server's group, or "" if it was not contained
	Controllers []string      // for its limits
	Reason      string        // why it was not contained
	Weaker      string        // why its backend is not a stronger one, "" if it was asked for
	Remedies    []string

	isPlaced  bool // its server has printed its position
	isDecided bool // it is decided whether the server is contained
}

// TryGateway runs a gateway with one server. Only that proves that a filter can be installed here, and that a
// running process can be moved to a group. Where it can't, it tries without cgroups, unless require is set.
// Gateway, server, watcher and guard have ended when it returns.
func TryGateway(installed Programs, b names.Backend, require bool) GatewayTrial {
	if b == names.Tree && require {
		return GatewayTrial{Reason: "the backend tree is weaker than --require allows"}
	}
	t := tryGateway(installed, b)
	if t.Reason == "" || b != names.Auto || require {
		return t
	}
	tree := tryGateway(installed, names.Tree)
	if tree.Reason != "" {
		return t
	}
	tree.Weaker = t.Reason
	tree.Remedies = t.Remedies
	return tree
}

// TrySession runs a gateway in a session with these limits, such as memory.max=1048576. It returns why there
// can be none, or "".
func TrySession(installed Programs, b names.Backend, limits []string) (reason string) {
	if b == names.Tree {
		return group.ErrNoGroup.Error()
	}
	flags := []string{"--session-group"}
	for _, l := range limits {
		flags = append(flags, "--session-set", l)
	}
	t := GatewayTrial{}
	err := t.run(installed, b, flags)
	if t.Reason == "" && err != nil {
		return err.Error()
	}
	if why := withoutSession.FindStringSubmatch(t.Reason); why != nil {
		return why[1]
	}
	return t.Reason
}

// withoutSession is the refusal of a gateway without its session.
var withoutSession = regexp.MustCompile(`in no session[^:]*: (.*)$`)

func tryGateway(installed Programs, b names.Backend) GatewayTrial {
	t := GatewayTrial{}
	err := t.run(installed, b, nil)
	switch {
	case t.Reason != "":
	case err != nil:
		t.Reason = err.Error()
	case t.Backend == "":
		t.Reason = "mcpscope gateway ended without a server"
	}
	if t.Reason == "" {
		return t
	}
	t.Backend = ""
	if len(t.Remedies) == 0 {
		t.Remedies = findRemedies(installed, b)
	}
	return t
}

// run starts the gateway, with more flags for a session, and follows its explanations.
func (t *GatewayTrial) run(installed Programs, b names.Backend, session []string) error {
	output, err := newPipe()
	if err != nil {
		return err
	}
	defer output.close()
	stdin, err := newPipe()
	if err != nil {
		return err
	}
	defer stdin.close()
	files := []*os.File{stdin.read, output.write, output.write, output.write}
	gateway, err := installed.startGateway(b, session, files)
	if err != nil {
		return err
	}
	defer func() {
		_ = gateway.Kill() // it may have ended, and was not reaped yet
		_, _ = gateway.Wait()
	}()
	_ = stdin.read.Close()   // the gateway has duplicates
	_ = output.write.Close() // with the last duplicate, the output is complete
	return t.follow(output.read, stdin.write)
}

// follow reads one pipe to its end: the watcher explains there, and holds it until it ends. The server lives
// until stdin is closed, which waits for its position: on a busy host it may not have started yet when it is
// taken, and would be stopped before it prints that.
func (t *GatewayTrial) follow(output, stdin *os.File) error {
	_ = output.SetReadDeadline(time.Now().Add(trialWithin)) // a pipe has deadlines
	lines := bufio.NewReader(output)
	for {
		line, err := lines.ReadString('\n')
		t.read(strings.TrimSuffix(line, "\n"))
		if t.isPlaced && t.isDecided {
			_ = stdin.Close()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("mcpscope gateway did not end within %v", trialWithin)
		}
	}
}

// explained is a line about the server: it was taken, or why not.
var explained = regexp.MustCompile(`"` + names.Trial + `" ` +
	`(?:taken as \S+ \(([a-z-]+)\)|left: (?:it can't be contained: )?(.*)$)`)

// complaint is a line of mcpscope gateway about itself.
var complaint = regexp.MustCompile(`^mcpscope: (?:(hint): |cannot contain the servers of "[^"]*": )?(.*)$`)

// read takes a line of the server, of the watcher or of the gateway.
func (t *GatewayTrial) read(line string) {
	var probe Position
	if json.Unmarshal([]byte(line), &probe) == nil {
		t.Controllers = probe.Controllers
		t.isPlaced = true
		return
	}
	ofGateway := complaint.FindStringSubmatch(line)
	if ofGateway != nil {
		t.readComplaint(ofGateway[1] != "", ofGateway[2])
		return
	}
	ofServer := explained.FindStringSubmatch(line)
	if ofServer != nil {
		t.Backend = names.Backend(ofServer[1])
		t.Reason = ofServer[2]
		t.isDecided = true
	}
}

// readComplaint keeps a hint as a remedy. A note is no reason, and neither is the end of a server that was
// contained: a busy host may not let it exit within its grace.
func (t *GatewayTrial) readComplaint(isHint bool, text string) {
	isContained := t.Backend != ""
	switch {
	case isHint:
		t.Remedies = append(t.Remedies, text)
	case !isContained && !strings.HasPrefix(text, "note: "):
		t.Reason = text
	}
}

// findRemedies returns the remedies of the backends that do not work. If one of them works, the reason is
// another.
func findRemedies(installed Programs, b names.Backend) []string {
	candidates := []names.Backend{b}
	if b == names.Auto {
		candidates = backend.Candidates()
	}
	var remedies []string
	for _, candidate := range candidates {
		if candidate == names.Tree { // it has no group
			continue
		}
		t := tryBackend(installed, candidate)
		if t.Works {
			return nil
		}
		if t.Remedy != "" && !slices.Contains(remedies, t.Remedy) {
			remedies = append(remedies, t.Remedy)
		}
	}
	return remedies
}
