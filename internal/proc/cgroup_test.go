// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"strings"
	"testing"
)

func TestParseCgroup(t *testing.T) {
	const hybrid = "9:name=systemd:/user.slice\n8:pids:/\n1:cpu,cpuacct:/a (deleted)\n"
	tests := []struct {
		name, text, path string
		deleted, ok      bool
	}{
		{"root", "0::/\n", "/", false, true},
		{"scope", "0::/user.slice/user-1000.slice/user@1000.service/mcp.slice/mcp-x-1.scope/payload\n", "/user.slice/user-1000.slice/user@1000.service/mcp.slice/mcp-x-1.scope/payload", false, true},
		{"hybrid", hybrid + "0::/g\n", "/g", false, true},
		{"version 1 only", hybrid, "", false, false},
		{"no newline at the end", "0::/g", "/g", false, true},

		{"removed", "0::/g (deleted)\n", "/g", true, true},
		{"removed, and named so", "0::/pt sp (deleted) (deleted)\n", "/pt sp (deleted)", true, true},
		{"nearly removed", "0::/g (deleted) \n", "/g (deleted) ", false, true},

		{"nothing is escaped", "0::/pt\\012x\n", "/pt\\012x", false, true},
		{"looks like a line", "0::/a0::/b\n", "/a0::/b", false, true},

		{"named hierarchy with an empty path", "1:name=0::/x\n", "", false, false},
		{"no path", "0::\n", "", false, false},
	}
	for _, tt := range tests {
		path, deleted, ok := ParseCgroup([]byte(tt.text))
		if path != tt.path || deleted != tt.deleted || ok != tt.ok {
			t.Errorf("%s: got %q, %v, %v", tt.name, path, deleted, ok)
		}
	}
}

func FuzzParseCgroup(f *testing.F) {
	f.Add([]byte("9:name=systemd:/\n0::/a b (deleted)\n"))
	f.Add([]byte("0::\n0::/x"))
	f.Fuzz(func(t *testing.T, b []byte) {
		path, deleted, ok := ParseCgroup(b)
		if !ok {
			if path != "" || deleted {
				t.Fatalf("%q, %v without ok", path, deleted)
			}
			return
		}
		if !strings.HasPrefix(path, "/") || strings.Contains(path, "\n") {
			t.Fatalf("no path of one line: %q", path)
		}
		line := "0::" + path
		if deleted {
			line += deletedMark
		}
		if !strings.Contains(string(b), line) {
			t.Fatalf("%q is not in the file", line)
		}
	})
}
