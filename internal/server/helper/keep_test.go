// SPDX-License-Identifier: Apache-2.0

package helper

import "testing"

// A person names a daemon by its file, its script, its process or its command line.
func TestKeepMatches(t *testing.T) {
	of := func(file, comm string, argv ...string) program { return newProgram(file, comm, argv) }
	tmux := of("/usr/bin/tmux", "tmux: server", "tmux", "new", "-d")
	vite := of("/usr/bin/node", "node", "node", "/home/a/shop/node_modules/.bin/vite", "--port", "1")
	script := of("/usr/bin/dash", "sh", "sh", "/home/a/devserver.sh", "x")
	text := of("/usr/bin/bash", "bash", "bash", "-c", "sleep 1", "devserver.sh")
	npm := of("/usr/bin/node", "npm run dev", "npm run dev", "", "", "")
	gunicorn := of("/usr/bin/python3.13", "gunicorn: maste", "gunicorn: master [app]", "", "")
	spaced := of("/opt/my app/run", "run", "/opt/my app/run")
	hidden := of("", "epmd") // another user's
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
		{"npm", npm, "npm"},
		{"npm run dev", npm, "npm run dev"},
		{"npm run *", npm, "npm run dev"},
		{"node", npm, "npm"},
		{"run", npm, ""},
		{"gunicorn", gunicorn, "gunicorn"},
		{"gunicorn: master*", gunicorn, "gunicorn"},
		{"run", spaced, "run"},
		{"my", spaced, ""},
		{"epmd", hidden, "epmd"},
		{"?", hidden, ""},
	} {
		if got := c.of.matched([]string{c.pattern}); got != c.want {
			t.Errorf("%s: %q of %v, want %q", c.pattern, got, c.of, c.want)
		}
	}
}
