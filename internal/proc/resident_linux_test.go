// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"errors"
	"os"
	"os/exec"
	"testing"
)

// What a process has is what it has touched.
func TestResident(t *testing.T) {
	before, err := Resident(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const size = 32 << 20
	page := make([]byte, size)
	for i := 0; i < size; i += 4096 {
		page[i] = 1
	}
	after, err := Resident(os.Getpid())
	if err != nil || after < before+size/2 || page[4096] != 1 {
		t.Errorf("%d bytes before, %d with %d more (%v)", before, after, size, err)
	}
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := Resident(cmd.Process.Pid); !errors.Is(err, ErrGone) {
		t.Errorf("of one that has gone: %v", err)
	}
}
