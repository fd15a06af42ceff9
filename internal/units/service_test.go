// SPDX-License-Identifier: Apache-2.0

package units

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
)

// A misspelled name gets the command that lists the names.
func TestExplainNoService(t *testing.T) {
	err := fmt.Errorf("read g.service: %w", systemd.ErrNoService)
	list := systemctlStep().String() + " list-units --type=service"
	want := "there is no g.service (" + list + " lists the services)"
	if got := explainNoService(err, "g.service"); got == nil || got.Error() != want {
		t.Errorf("%v, want %s", got, want)
	}
	if got := explainNoService(os.ErrPermission, "g.service"); got != os.ErrPermission {
		t.Errorf("%v", got)
	}
}

// A drop-in that was removed is no error: the manager has yet to read that.
func TestRemovedDropIn(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "g.service")
	if err := os.WriteFile(file, []byte("[Service]\nExecStart=/bin/g\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serviceOf()
	s.Fragment = file
	s.DropIns = []string{filepath.Join(dir, "g.service.d", "zz-mcpscope.conf")}
	loaded, err := loadFiles(s)
	if err != nil || !loaded.Outdated || len(loaded.Files) != 1 {
		t.Errorf("%+v, %v", loaded, err)
	}
}

func TestParseServiceName(t *testing.T) {
	for name, want := range map[string]string{
		"hermes-gateway": "hermes-gateway.service", "a@b.service": "a@b.service", "../a": "", "a/b": "", "": "", ".service": "", "a\nb": "", "é": "",
		strings.Repeat("x", 300): "",
	} {
		if got, err := ParseServiceName(name); got.Full != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
}
