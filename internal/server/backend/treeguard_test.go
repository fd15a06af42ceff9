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

// A process of another user's that is called as a guard is not looked at when the time for that is over, and one of our own is.
func TestOthersAreLookedAtInTime(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs another user's process")
	}
	const other = 65533
	for _, uid := range []uint32{other, 0} {
		cmd := exec.Command("sh", "-c", "printf "+protocol.GuardComm("abcdefgh")+" >/proc/$$/comm; echo up; read end")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid}}
		in, inErr := cmd.StdinPipe()
		out, outErr := cmd.StdoutPipe()
		if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
		none, much := -time.Second, time.Hour
		_, late := openTree(cmd.Process.Pid, int(uid), &none)
		_, intime := openTree(cmd.Process.Pid, int(uid), &much)
		if errors.Is(late, errLate) != (uid == other) || !errors.Is(intime, errNoTree) {
			t.Errorf("of user %d, too late: %v, in time: %v", uid, late, intime)
		}
		_ = in.Close()
		_ = cmd.Wait() // read's status
	}
}
