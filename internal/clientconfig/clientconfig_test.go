// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mcpscope/mcpscope/internal/clientconfig/configfile"
)

// No argument of a command is printed, and no variable in front of one.
func TestWithoutArguments(t *testing.T) {
	line := filepath.Join(t.TempDir(), "a program")
	if err := os.WriteFile(line, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		argv []string
		want string
	}{
		{nil, ""},
		{[]string{"npx", "--token", "s3cret"}, "npx"},
		{[]string{"npx --token s3cret"}, "npx …"},
		{[]string{line, "s3cret"}, line},
		{[]string{"KEY=s3cret"}, "…"},
		{[]string{"KEY=s3cret npx"}, "…"},
		{[]string{"a\x1b[31m"}, "a?[31m"},
	} {
		if got := WithoutArguments(c.argv); got != c.want {
			t.Errorf("%q: %q, want %q", c.argv, got, c.want)
		}
	}
}

// A link is named with its target, and no name controls the terminal.
func TestWhere(t *testing.T) {
	h := newHome(t)
	h.write("dotfiles/mcp.json", oneServer)
	h.link(".cursor/mcp.json", "../dotfiles/mcp.json")
	want := h.path(".cursor/mcp.json") + " -> " + h.path("dotfiles/mcp.json")
	c := h.one("cursor")
	if got := c.Where(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := c.ClientTitle("a file"); got != "Cursor" {
		t.Errorf("the client is %s", got)
	}
	h.write("own\x1b.json", oneServer)
	other := h.one(h.path("own\x1b.json"))
	if got := other.Where(); got != h.path("own?.json") {
		t.Errorf("%q", got)
	}
	if got := other.ClientTitle("a file"); got != "a file" {
		t.Errorf("the client is %s", got)
	}
}

// Backups are below XDG_STATE_HOME, if that is absolute, and otherwise below the home.
func TestUserBackups(t *testing.T) {
	h := newHome(t)
	inHome := configfile.BackupsBelow(h.path(".local/state"))
	for _, c := range []struct {
		state string
		want  configfile.Backups
	}{
		{"", inHome},
		{"relative", inHome},
		{"/var/state", configfile.BackupsBelow("/var/state")},
	} {
		t.Setenv("XDG_STATE_HOME", c.state)
		if got := userBackups(); got != c.want {
			t.Errorf("XDG_STATE_HOME=%s: %q, want %q", c.state, got, c.want)
		}
	}
}

// Only the two words together can be the begin of a wrapped command.
func TestMentionsRunner(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "mcpscope": false, "run": false, `["/usr/bin/mcpscope", "run"]`: true,
	} {
		c := &File{content: &configfile.File{Data: []byte(text)}}
		if got := c.mentionsRunner(); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
