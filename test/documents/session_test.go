// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"fmt"
	"html"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// sessionEnv names the picture that make session writes.
const sessionEnv = "MCPSCOPE_SESSION"

// scene is the lines of one shell. Hidden lines only wait, or tidy up.
var scene = []struct {
	typed, note string
	hidden      bool
}{
	{typed: "my-agent &", note: "an agent with two MCP servers"},
	{typed: "until [ $(pgrep -c mcp-server) = 2 ]; do :; done", hidden: true},
	{typed: "kill -9 $!", note: "crashes"},
	{typed: "wait $! 2>/dev/null; until [ $(ps -o ppid= -C uvx,npx | grep -cw 1) = 2 ]; do :; done",
		hidden: true},
	{typed: "ps -o pid,ppid,args -C uvx,npx,mcp-server", note: "all of them are left"},
	{typed: "kill -9 $(ps -o pid= -C uvx,npx,mcp-server); until [ $(pgrep -c mcp-server) = 0 ]; do :; done",
		hidden: true},
	{typed: "mcpscope wrap --yes | tail -n 1"},
	{typed: "my-agent &"},
	{typed: "until [ $(pgrep -c mcp-server) = 2 ]; do :; done", hidden: true},
	{typed: "mcpscope ls"},
	{typed: "kill -9 $!", note: "crashes again"},
	{typed: "wait $! 2>/dev/null; while mcpscope ls | grep -q .; do :; done", hidden: true},
	{typed: "ps -o pid,ppid,args -C uvx,npx,mcp-server", note: "nothing is left"},
}

// The session of the front page: without mcpscope four processes are left, with it none.
func TestSession(t *testing.T) {
	file := os.Getenv(sessionEnv)
	if file == "" && !escape.Full() {
		t.Skip("make session, make test-full")
	}
	s := newStage(t)
	const next = "\x01next\n"
	script := "cd; exec 2>/dev/null\n" // without the shell's own "Killed"
	for _, line := range scene {
		script += "{ " + line.typed + "\n} 2>&1; printf '\\001next\\n'\n"
	}
	said := strings.Split(s.sh(host.Tester, script), next)
	if len(said) != len(scene)+1 {
		t.Fatalf("%d answers to %d lines: %q", len(said)-1, len(scene), said)
	}
	var transcript []string
	left := map[string]int{}
	for i, line := range scene {
		if line.hidden {
			continue
		}
		typed := "$ " + line.typed
		if line.note != "" {
			typed = fmt.Sprintf("%-47s # %s", typed, line.note)
		}
		transcript = append(transcript, typed)
		if said[i] != "" {
			transcript = append(transcript, strings.Split(strings.TrimSuffix(said[i], "\n"), "\n")...)
		}
		left[line.note] = strings.Count(said[i], "\n") - 1
	}
	if left["all of them are left"] != 4 || left["nothing is left"] != 0 {
		t.Fatalf("left: %v\n%s", left, strings.Join(transcript, "\n"))
	}
	if file == "" || t.Failed() {
		return
	}
	if err := os.WriteFile(file, []byte(picture(transcript)), 0o644); err != nil {
		t.Error(err)
	}
}

// picture is that of a terminal.
func picture(lines []string) string {
	const size, lineHeight, margin = 13, 18, 16
	columns := 0
	for _, line := range lines {
		columns = max(columns, utf8.RuneCountInString(line))
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="ui-monospace,Menlo,Consolas,monospace" font-size="%d">
<title>An agent crashes: its servers stay. With mcpscope nothing stays.</title>
<rect width="100%%" height="100%%" rx="8" fill="#1b1f27"/>
`, columns*size*60/100+2*margin, len(lines)*lineHeight+2*margin, size)
	for i, line := range lines {
		color := "#b9c1cf"
		if strings.HasPrefix(line, "$ ") {
			color = "#8fd0a7"
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d" fill="%s" xml:space="preserve">%s</text>`+"\n", margin,
			margin+lineHeight*i+size, color, html.EscapeString(line))
	}
	return b.String() + "</svg>\n"
}
