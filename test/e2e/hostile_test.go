// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/test/facts"
)

// hostile has values that a server may write into the attributes of its own group.
var hostile = []string{
	"\x1b]0;owned\x07\x1b[2J\r\nmcpscope: all is well\t\u202e\u0085", strings.Repeat("a\x00\xff\"\\{}", 500), strings.Repeat("9", 3000),
	"-1", "{", "", "1 2 3 4 5 6 7 8", "/../../..",
}

// No attribute that a server sets crashes a command or reaches a terminal unchanged.
func TestHostileAttributes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := startServer(w, []string{"--group"}, nil, binaries.Zoo, "plain")
	commands := []string{"ls", "ls --json", "inspect server", "metrics", "sweep --dry-run"}
	tried := 0
	try := func(attr, value string) {
		command := commands[tried%len(commands)] // in turn: 8 values and 5 commands
		tried++
		o := w.run(w.mcpscope(strings.Fields(command)...))
		if o.Status.Signaled() || o.Status.ExitStatus() > 1 || strings.Contains(o.Stderr, "panic") {
			t.Errorf("%s with %s=%.40q: %v; stderr: %s", command, attr, value, o.Status, o.Stderr)
		}
		if strings.ContainsFunc(o.Stdout+o.Stderr, raw) {
			t.Errorf("%s with %s=%.40q prints it raw: %q", command, attr, value, o.Stdout+o.Stderr)
		}
		if strings.HasSuffix(command, "--json") && !json.Valid([]byte(o.Stdout)) {
			t.Errorf("%s with %s=%.40q: not JSON", command, attr, value)
		}
	}
	for _, attr := range attributes(t, s.group) {
		was := make([]byte, 4096)
		n, err := unix.Getxattr(s.group, attr, was)
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range hostile {
			setAttribute(t, s.group, attr, value)
			try(attr, value)
			setAttribute(t, s.group, attr, string(was[:n]))
		}
	}
	for _, value := range slices.Repeat(hostile, 5) { // each with each command, as 8 and 5 have no common divisor
		facts.Set(t, s.group, func(f *protocol.Facts) {
			f.Policy.OnClientDeath = policy.ClientDeath(value)
			f.Name = value
			f.Client.Name = value
			f.Client.Unit = value
			f.Engine = value
		})
		try("all facts", value)
	}
	if !s.Lives("still there?") {
		t.Error("the server was hit")
	}
	s.Tell("close")
	s.dead()
}

func setAttribute(t *testing.T, dir, attr, value string) {
	t.Helper()
	if err := unix.Setxattr(dir, attr, []byte(value), 0); err != nil {
		t.Fatalf("set %s: %v", attr, err)
	}
}

// raw reports whether a terminal would act on r.
func raw(r rune) bool {
	return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
}

// attributes are all that mcpscope has set.
func attributes(t *testing.T, dir string) []string {
	t.Helper()
	buf := make([]byte, 4096)
	n, err := unix.Listxattr(dir, buf)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for name := range strings.SplitSeq(string(buf[:n]), "\x00") {
		if strings.HasPrefix(name, "user.mcpscope.") {
			all = append(all, name)
		}
	}
	if len(all) < 2 {
		t.Fatalf("only %q: this tests nothing", all)
	}
	return all
}
