// SPDX-License-Identifier: Apache-2.0

//go:build linux

package backend

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Names are others' bytes, and come back as they were.
func TestTreeFactsComeBack(t *testing.T) {
	policy := protocol.DefaultPolicy()
	policy.MaxLifetime = time.Hour
	for _, f := range []treeFacts{
		{Policy: protocol.DefaultPolicy(), Started: time.Unix(0, 0).UTC()},
		{Version: 1, ID: "abcdefgh", Name: "a\nb=\"c\" \xff", Supervisor: 7, Launcher: "1 2", Started: time.Unix(1700000000, 5).UTC(), Policy: policy,
			Client: protocol.ClientFacts{PID: 9, Start: 10, Name: "its\n name=", Unit: "u.service"}},
	} {
		if got, err := parseTreeFacts(f.String()); err != nil || got != f {
			t.Errorf("%+v, %v, want %+v", got, err, f)
		}
	}
	if f, err := parseTreeFacts(treeFacts{ID: "x", Policy: policy}.String() + "later={}\n"); err != nil || f.ID != "x" {
		t.Errorf("what another version says: %+v, %v", f, err)
	}
	for _, text := range []string{"", "{}", "id=x", "version=\"1\"\n"} {
		if f, err := parseTreeFacts(text); err == nil {
			t.Errorf("%q is %+v", text, f)
		}
	}
}

// A process of another user's that is called as a supervisor is not looked at when the time for that is over, and one of our own is.
func TestOthersAreLookedAtInTime(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs another user's process")
	}
	const other = 65533
	for _, uid := range []uint32{other, 0} {
		cmd := exec.Command("sh", "-c", "printf "+protocol.CommOfGuards+" >/proc/$$/comm; echo up; read end")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid}}
		in, inErr := cmd.StdinPipe()
		out, outErr := cmd.StdoutPipe()
		if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
		_, late := openTree(cmd.Process.Pid, int(uid), time.Now().Add(-time.Second))
		_, intime := openTree(cmd.Process.Pid, int(uid), time.Now().Add(time.Hour))
		if errors.Is(late, errLate) != (uid == other) || !errors.Is(intime, errNoFacts) {
			t.Errorf("of user %d, too late: %v, in time: %v", uid, late, intime)
		}
		_ = in.Close()
		_ = cmd.Wait() // read's status
	}
}
