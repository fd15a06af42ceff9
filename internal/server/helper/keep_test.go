// SPDX-License-Identifier: Apache-2.0

package helper

import "testing"

// A person names a daemon by its file, its script, its process or its command line.
func TestKeepMatches(t *testing.T) {
	tmux := program{"/usr/bin/tmux", "tmux: server", []string{"tmux", "new", "-d"}}
	vite := program{"/usr/bin/node", "node", []string{"node", "/home/a/shop/node_modules/.bin/vite", "--port", "1"}}
	script := program{"/usr/bin/dash", "sh", []string{"sh", "/home/a/devserver.sh", "x"}}
	text := program{"/usr/bin/bash", "bash", []string{"bash", "-c", "sleep 1", "devserver.sh"}}
	hidden := program{"", "epmd", nil} // another user's
	for _, c := range []struct {
		pattern string
		of      program
		want    string
	}{
		{"tmux", tmux, "tmux"},
		{"/usr/bin/tmux", tmux, "tmux"},
		{"tmux new*", tmux, "tmux"},
		{"tmux: server", tmux, "tmux: server"},
		{"screen", tmux, ""},
		{"vite", vite, "vite"},
		{"node", vite, "node"},
		{"*/shop/*", vite, "vite"},
		{"devserver.sh", script, "devserver"},
		{"devserver", script, "devserver"},
		{"/home/a/devserver.sh", script, "devserver"},
		{"dev*", script, "devserver"},
		{"x", script, ""},
		{"devserver.sh", text, ""},
		{"epmd", hidden, "epmd"},
		{"?", hidden, ""},
	} {
		if got := c.of.matched([]string{c.pattern}); got != c.want {
			t.Errorf("%s: %q of %v, want %q", c.pattern, got, c.of, c.want)
		}
	}
}
