// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/mcpscope/mcpscope/internal/clientconfig/configfile"
	"github.com/mcpscope/mcpscope/internal/clientconfig/known"
	"github.com/mcpscope/mcpscope/internal/clientconfig/splice"
)

// A backup that equals its file is removed, and so is one that has the same servers: its client writes the rest
// anew. One with another server, with a comment, or without a file is not.
func TestRemoveIfSpent(t *testing.T) {
	for _, c := range []struct {
		what    string
		after   func(h *testHome) // what a person does after the wrap
		removed bool
	}{
		{"restored", func(h *testHome) { h.write(".cursor/mcp.json", oneServer) }, true},
		{"written anew", func(h *testHome) { h.write(".cursor/mcp.json", `{"theirs": 1, `+"\n"+oneServer[1:]) }, true},
		{"a comment", func(h *testHome) { h.write(".cursor/mcp.json", "// mine\n"+oneServer) }, false},
		{"another text", func(h *testHome) { h.write(".cursor/mcp.json", twiceEdited(oneServer)) }, false},
		{"no file", func(h *testHome) { h.remove(".cursor/mcp.json") }, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			h := newHome(t)
			h.write(".cursor/mcp.json", oneServer)
			backup := h.wrap("cursor")
			if left := h.find().Left; len(left) > 0 {
				t.Fatalf("a file with a wrapped server is left: %+v", left)
			}
			c.after(h)
			left := h.find().Left
			if len(left) != 1 || left[0].Backup != backup {
				t.Fatalf("left: %+v", left)
			}
			removed, err := left[0].RemoveIfSpent()
			_, errStat := os.Stat(backup)
			if err != nil || removed != c.removed || (errStat != nil) != c.removed {
				t.Errorf("removed %v, want %v: %v, %v", removed, c.removed, err, errStat)
			}
		})
	}
}

// What another command has wrapped meanwhile keeps its backup.
func TestABackupThatIsNeededAgain(t *testing.T) {
	h := newHome(t)
	h.write(".cursor/mcp.json", oneServer)
	h.wrap("cursor")
	h.write(".cursor/mcp.json", oneServer)
	left := h.find().Left
	if len(left) != 1 {
		t.Fatalf("left: %+v", left)
	}
	backup := h.wrap("cursor")
	removed, err := left[0].RemoveIfSpent()
	if _, errStat := os.Stat(backup); removed || err != nil || errStat != nil {
		t.Errorf("removed %v: %v, %v", removed, err, errStat)
	}
}

// The remedy depends on the reason. For a malformed file, it is not unwrap.
func TestRepair(t *testing.T) {
	h := newHome(t)
	backup := h.path(".local/state/mcpscope/backups/x.json")
	malformed := &splice.SyntaxError{Line: 1, Text: "not valid JSON"}
	for _, c := range []struct {
		err       error
		hasBackup bool
		want      string
	}{
		{malformed, true, "repair it, or restore " + backup},
		{malformed, false, "repair it, and run mcpscope unwrap"},
		{fmt.Errorf("read: %w", fs.ErrPermission), true, "give yourself the right to read it, and run mcpscope unwrap"},
		{fs.ErrNotExist, true, "bring back the target of the link, or remove the link"},
		{syscall.ENOTDIR, true, "bring back the target of the link, or remove the link"},
		{errors.New("it is not a regular file"), true, ""},
	} {
		file := &File{Err: c.err, content: &configfile.File{Target: "/x.json"}}
		if c.hasBackup {
			file.backup = []byte("{}")
		}
		if got := file.Repair(); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}

// A backup that cannot be read is one too.
func TestHasBackup(t *testing.T) {
	for _, c := range []struct {
		file File
		want bool
	}{
		{File{}, false},
		{File{backup: []byte{}}, true},
		{File{BackupErr: fs.ErrPermission}, true},
	} {
		if got := c.file.HasBackup(); got != c.want {
			t.Errorf("%+v: %v", c.file, got)
		}
	}
}

// The format of a file without a known ending can be set, and the error says how.
func TestWithFormat(t *testing.T) {
	err := &splice.SyntaxError{Text: "not valid JSON"}
	const more = "not valid JSON; for another format, name the client and its format in mcpscope.toml ([client.NAME])"
	for _, c := range []struct {
		file known.File
		want string
	}{
		{known.File{Client: "cursor", Path: "/mytool.conf"}, "not valid JSON"},
		{known.File{Path: "/a.json"}, "not valid JSON"},
		{known.File{Path: "/a.yml"}, "not valid JSON"},
		{known.File{Path: "/mytool.conf"}, more},
		{known.File{Path: "/mytool"}, more},
	} {
		file := &File{File: c.file}
		got := file.withFormat(err)
		if got.Error() != c.want || !errors.Is(got, err) {
			t.Errorf("%+v: %v, want %s", c.file, got, c.want)
		}
	}
}
