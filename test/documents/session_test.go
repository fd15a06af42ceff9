// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// sessionEnv names the picture that make session writes.
const sessionEnv = "MCPSCOPE_SESSION"

// scene is what is typed into one shell. What is hidden only waits, or tidies up.
var scene = []struct {
	typed, note string
	hidden      bool
}{
	{typed: "my-agent &", note: "an agent with two MCP servers"},
	{typed: "until [ $(pgrep -c mcp-server) = 2 ]; do :; done", hidden: true},
	{typed: "kill -9 $!", note: "crashes"},
	{typed: "wait $! 2>/dev/null; until [ $(ps -o ppid= -C uvx,npx | grep -cw 1) = 2 ]; do :; done", hidden: true},
	{typed: "ps -o pid,ppid,args -C uvx,npx,mcp-server", note: "all of them are left"},
	{typed: "kill -9 $(ps -o pid= -C uvx,npx,mcp-server); until [ $(pgrep -c mcp-server) = 0 ]; do :; done", hidden: true},
	{typed: "mcpscope wrap --yes | tail -n 1"},
	{typed: "my-agent &"},
	{typed: "until [ $(pgrep -c mcp-server) = 2 ]; do :; done", hidden: true},
	{typed: "mcpscope ls"},
	{typed: "kill -9 $!", note: "crashes again"},
	{typed: "wait $! 2>/dev/null; mcpscope wait time browser 2>/dev/null", hidden: true},
	{typed: "ps -o pid,ppid,args -C uvx,npx,mcp-server", note: "nothing is left"},
}

// The session of the front page, as it is: without mcpscope four processes stay, with it none.
func TestSession(t *testing.T) {
	if os.Getenv(sessionEnv) == "" && !escape.Full() {
		t.Skip("make session, make test-full")
	}
	s := stage{t: t, host: host.Current(t)}
	s.set()
	var transcript []string
	left := map[string]int{}
	shell := newShell(t, &s)
	for _, step := range scene {
		said := shell.say(step.typed)
		if step.hidden {
			continue
		}
		line := "$ " + step.typed
		if step.note != "" {
			line = fmt.Sprintf("%-47s # %s", line, step.note)
		}
		transcript = append(append(transcript, line), said...)
		if strings.HasPrefix(step.typed, "ps ") {
			left[step.note] = len(said) - 1
		}
	}
	shell.close()
	if left["all of them are left"] != 4 || left["nothing is left"] != 0 {
		t.Errorf("left: %v\n%s", left, strings.Join(transcript, "\n"))
	}
	if file := os.Getenv(sessionEnv); file != "" && !t.Failed() {
		if err := os.WriteFile(file, []byte(screen(transcript)), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// shell is a bash that says when a line is done.
type shell struct {
	t     *testing.T
	in    io.WriteCloser
	said  *os.File
	out   *bufio.Reader
	close func()
}

const done = "\x01done"

func newShell(t *testing.T, s *stage) *shell {
	t.Helper()
	cmd := s.command(host.Tester, "cd; exec bash")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said := s.start(cmd)
	return &shell{t, in, said, bufio.NewReader(said), func() {
		_ = in.Close()
		_ = cmd.Wait() // however it ended
		_ = said.Close()
	}}
}

// say types a line, and returns what is printed.
func (s *shell) say(line string) (lines []string) {
	s.t.Helper()
	if _, err := io.WriteString(s.in, line+" 2>&1\necho $'"+`\x01done`+"'\n"); err != nil {
		s.t.Fatal(err)
	}
	_ = s.said.SetReadDeadline(time.Now().Add(escape.Patience))
	for {
		text, err := s.out.ReadString('\n')
		if err != nil {
			s.t.Fatalf("%s: %v after %q", line, err, lines)
		}
		text = strings.TrimRight(text, "\n")
		if text == done {
			return lines
		}
		lines = append(lines, text)
	}
}

// screen is the picture of a terminal.
func screen(lines []string) string {
	const size, lineHeight, margin = 13, 18, 16
	columns := 0
	for _, line := range lines {
		columns = max(columns, utf8.RuneCountInString(line))
	}
	var b strings.Builder
	width, height := columns*size*60/100+2*margin, len(lines)*lineHeight+2*margin
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="ui-monospace,Menlo,Consolas,monospace" font-size="%d">
<title>An agent crashes: its servers stay. With mcpscope nothing stays.</title>
<rect width="100%%" height="100%%" rx="8" fill="#1b1f27"/>
`, width, height, size)
	for i, line := range lines {
		color := "#b9c1cf"
		if strings.HasPrefix(line, "$ ") {
			color = "#8fd0a7"
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d" fill="%s" xml:space="preserve">%s</text>`+"\n", margin, margin+lineHeight*i+size, color, html.EscapeString(line))
	}
	b.WriteString("</svg>\n")
	return b.String()
}
