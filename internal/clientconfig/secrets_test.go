// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"strings"
	"testing"
)

// A person sees what runs, and no secret.
func TestWithoutSecrets(t *testing.T) {
	for _, c := range []struct {
		argv []string
		want string
	}{
		{nil, ""},
		{[]string{"python3", "main.py"}, "python3 main.py"},
		{[]string{"npm exec @a/b --api-key hunter2 --port 8080"}, "'npm exec @a/b --api-key … --port 8080'"},
		{[]string{"uvx", "x", "--token", "hunter2", "--db", "/srv/a.db"}, "uvx x --token … --db /srv/a.db"},
		{[]string{"x", "--apiKey=hunter2", "--verbose=yes"}, "x --apiKey=… --verbose=yes"},
		{[]string{"docker", "run", "-e", "GITHUB_TOKEN=hunter2", "-e", "MODE=hunter2", "image"},
			"docker run -e GITHUB_TOKEN=… -e MODE=… image"},
		{[]string{"mcp-remote", "https://u:hunter2@h/p?key=hunter2&a=b", "--header", "Authorization: Bearer hunter2"},
			"mcp-remote 'https://…@h/p?key=…&a=b' --header …"},
		{[]string{"x", "Authorization: Bearer hunter2"}, "x 'Authorization: …'"},
		{[]string{"sh", "-c", "TOKEN=hunter2 exec notes --password hunter2 --port 1"},
			"sh -c 'TOKEN=… exec notes --password … --port 1'"},
		{[]string{"x", "ghp_abcdefghijklmnop", "sk-ant-hunter2hunter2"}, "x … …"},
		{[]string{"x", "0123456789abcdef0123456789abcdef"}, "x …"},
		{[]string{"/home/u/.npm/_npx/83a6724fdd5c1fe9/node_modules/.bin/mcp-server-everything"},
			"/home/u/.npm/_npx/83a6724fdd5c1fe9/node_modules/.bin/mcp-server-everything"},
		{[]string{"a\nb"}, "'a?b'"},
	} {
		got := WithoutSecrets(c.argv)
		if strings.Contains(got, "hunter2") {
			t.Errorf("%q: a secret: %s", c.argv, got)
		}
		if got != c.want {
			t.Errorf("%q: %s, want %s", c.argv, got, c.want)
		}
	}
	if got := WithoutSecrets([]string{strings.Repeat("é", 1000)}); len(got) > 410 {
		t.Errorf("%d bytes", len(got))
	}
}
