// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/clientconfig/configfile"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
)

// A plan changes nothing. Its write keeps the text of the person, and unwrap restores that.
func TestWrapAndUnwrap(t *testing.T) {
	h := newHome(t)
	h.write(".cursor/mcp.json", oneServer)
	plan := h.one("cursor").Wrap(wrapping.Runner{Program: h.program}, everyServer)
	if plan.Count() != 1 || h.read(".cursor/mcp.json") != oneServer {
		t.Errorf("planned: %s", plan.Data)
	}
	before, after, err := plan.Masked()
	masked := strings.NewReplacer("mcp-time", "…")
	if err != nil || string(before) != masked.Replace(oneServer) || string(after) != masked.Replace(string(plan.Data)) {
		t.Errorf("masked: %s, %s, %v", before, after, err)
	}
	none := h.one("cursor").Wrap(wrapping.Runner{Program: h.program}, func(string) bool { return false })
	if none.Count() != 0 {
		t.Errorf("a server that is not wanted changes: %s", none.Data)
	}
	backup, err := plan.Write()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(backup)
	if err != nil || string(text) != oneServer {
		t.Errorf("the backup is %q, %v", text, err)
	}
	back := h.one("cursor").Unwrap(everyServer)
	if back.KeepsMore() {
		t.Error("a backup that equals its file is kept")
	}
	kept, err := back.Write()
	if err != nil || kept != "" || h.read(".cursor/mcp.json") != oneServer {
		t.Errorf("%q, %v: %s", kept, err, h.read(".cursor/mcp.json"))
	}
	if _, err := os.Stat(backup); err == nil {
		t.Error("there is still a backup")
	}
}

// The backup of a file that a person has changed in two places is kept, after the last server is bare too.
func TestUnwrapKeepsTheBackupOfAChangedFile(t *testing.T) {
	h := newHome(t)
	h.write(".cursor/mcp.json", oneServer)
	backup := h.wrap("cursor")
	h.write(".cursor/mcp.json", twiceEdited(h.read(".cursor/mcp.json")))
	back := h.one("cursor").Unwrap(everyServer)
	if !back.KeepsMore() || back.Count() != 1 {
		t.Errorf("%d servers: %s", back.Count(), back.Data)
	}
	kept, err := back.Write()
	if err != nil || kept != backup {
		t.Errorf("kept %q, %v, want %q", kept, err, backup)
	}
	if got := h.read(".cursor/mcp.json"); got != twiceEdited(oneServer) {
		t.Error(got)
	}
}

// A file that another program has written after the plan stays as it is.
func TestWriteOfAFileThatHasChanged(t *testing.T) {
	h := newHome(t)
	h.write(".cursor/mcp.json", oneServer)
	plan := h.one("cursor").Wrap(wrapping.Runner{Program: h.program}, everyServer)
	h.write(".cursor/mcp.json", "{}")
	if _, err := plan.Write(); !errors.Is(err, configfile.ErrChanged) {
		t.Errorf("%v", err)
	}
	if got := h.read(".cursor/mcp.json"); got != "{}" {
		t.Error(got)
	}
}

// The lines for a person are those of a wrapped server or, without a runner, of a bare one.
func TestLinesForAPerson(t *testing.T) {
	h := newHome(t)
	h.write(".config/goose/config.yaml", "extensions:\n  t: &t\n    cmd: uvx\n    args: [run]\n"+
		"  w: &w\n    cmd: "+h.program+"\n    args: [run, --, uvx]\n")
	c := h.one("goose")
	for _, check := range []struct {
		server int
		runner *wrapping.Runner
		want   []string
	}{
		{0, &wrapping.Runner{Program: h.program}, []string{
			`cmd: "` + h.program + `"`, `args: ["run", "--name", "t", "--", "uvx", …the argument that is there now]`,
		}},
		{1, nil, []string{`cmd: "uvx"`, "args: []"}},
	} {
		s := &c.Servers[check.server]
		if !s.ByHand() {
			t.Errorf("%s can be edited", s.Name)
		}
		if got := c.Lines(s, check.runner); !slices.Equal(got, check.want) {
			t.Errorf("%s: %q, want %q", s.Name, got, check.want)
		}
	}
}
