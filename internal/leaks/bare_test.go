// SPDX-License-Identifier: Apache-2.0

package leaks

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
)

// Another user's server with the same command is not the calling user's, whether it is contained or not.
func TestBareIsOfOneUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("it needs root, to start a process of another user")
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	const config = `{"mcpServers": {"time": {"command": "sleep", "args": ["1006"]}}}`
	if err := os.WriteFile(filepath.Join(home, ".claude.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func(before string) {
		in, out := bed.Pipe(t)
		const script = "sleep 1006 3>&- & until grep -q sleep /proc/$!/comm; do :; done; echo >&3; wait"
		leave(t, in, out, before+script)
	}
	start("setpriv --reuid=65534 --clear-groups ")
	if memory := Bare(); memory != 0 {
		t.Errorf("another user's server counts: %d bytes", memory)
	}
	start("")
	if Bare() == 0 {
		t.Error("the own server does not count")
	}
}
