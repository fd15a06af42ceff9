// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// bystanders are programs that are started with pipes, and are spoken to in something else, or in nothing.
// They are written to right after their start: "" leaves their stdin open and silent.
var bystanders = []struct {
	what, said string
	argv       []string
}{
	{"git", "", []string{"git", "--version"}},
	{"a search", "", []string{"grep", "-r", "nothing", "/etc/hostname"}},
	{"a filter", "one\ntwo\n", []string{"head", "-n", "2"}},
	{"a shell", "echo hello; exit\n", []string{"sh"}},
	{"a node worker", `{"type":"work","id":1}` + "\n", []string{"node", "-e", "process.stdin.once('data', () => process.exit())"}},
	{"a language server", "Content-Length: 58\r\n\r\n" + `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}` + "\n", []string{"head", "-n", "3"}},
	{"one by line", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"processId":1,"rootUri":null,"capabilities":{}}}` + "\n", []string{"head", "-n", "1"}},
	{"an agent in ACP", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}` + "\n", []string{"head", "-n", "1"}},
	{"an agent in ACP 2", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":2,"clientInfo":{"name":"x"}}}` + "\n", []string{"head", "-n", "1"}},
	{"an agent's stream", `{"type":"control_request","request":{"subtype":"mcp_message","message":{"jsonrpc":"2.0","id":1,"method":"tools/list"}}}` + "\n", []string{"head", "-n", "1"}},
}

// What is no server is not taken, its background processes live, and none waits for more than 5 ms longer than
// it takes without, as long as it waits at all.
func TestBystanders(t *testing.T) {
	for _, b := range bystanders {
		if _, err := exec.LookPath(b.argv[0]); err != nil {
			bed.Require(t, bed.Feature{Name: b.argv[0], Missing: func() error { return err }})
		}
	}
	count := 10
	if escape.Full() {
		count = 100
	}
	w := newWorld(t)
	scripts := t.TempDir()
	g := w.start([]string{binaries.mcpscope, "gateway", "--backend", "cgroup", "--explain", w.explain, "--", binaries.like})
	for _, kind := range []string{"pipes", "sockets"} {
		if kind == "sockets" {
			g.Tell("sockets")
			g.Expect("sockets")
		}
		for i, b := range bystanders {
			said := filepath.Join(scripts, fmt.Sprint(i))
			if err := os.WriteFile(said, []byte(b.said), 0o600); err != nil {
				t.Fatal(err)
			}
			g.Tell("many %d %s %s", count/2, said, strings.Join(quoted(scripts, b.argv), " "))
			if rest := g.Expect("many"); rest != "<nil>" {
				t.Errorf("%s over %s: %s", b.what, kind, rest)
			}
		}
	}
	shell := g.Tool("shell x")
	if all := escape.Servers(w.slice(), "*", "*"); len(all) > 0 {
		t.Errorf("groups: %q, want none", all)
	}
	text, err := os.ReadFile(w.explain)
	if n := strings.Count(string(text), " taken as "); n > 0 || err != nil {
		t.Errorf("%d were taken (%v)", n, err)
	}
	var most time.Duration
	held := 0
	for line := range strings.Lines(string(text)) {
		if _, took, found := strings.Cut(line, " held for "); found {
			d, err := time.ParseDuration(strings.TrimSpace(strings.SplitN(took, ":", 2)[0]))
			if err != nil {
				t.Errorf("%q: %v", line, err)
			}
			held, most = held+1, max(most, d)
		}
	}
	slack := 200 * time.Millisecond // beside the other fast tests
	if escape.Full() {
		slack = 15 * time.Millisecond // for the timers of a machine that does nothing else
	}
	if most > 5*time.Millisecond+slack {
		t.Errorf("one was held for %v", most)
	}
	t.Logf("%d programs; %d were held, for %v at most", count*len(bystanders), held, most)
	lives(t, "what a shell has left", shell)
}

// quoted has a word with blanks in a file of its own: the gateway's words have none.
func quoted(dir string, argv []string) []string {
	var all []string
	for _, word := range argv {
		if strings.ContainsAny(word, " ") {
			word = "@" + writeWord(dir, word)
		}
		all = append(all, word)
	}
	return all
}

func writeWord(dir, word string) string {
	file := filepath.Join(dir, fmt.Sprint("word.", len(word)))
	_ = os.WriteFile(file, []byte(word), 0o600) // its reader says so
	return file
}
