// SPDX-License-Identifier: Apache-2.0

package group

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrNoSignals: no process may signal another one here, so nothing could stop the processes of a tree.
var ErrNoSignals = errors.New("processes may not signal each other here")

// CanSignal returns ErrNoSignals where that is so. AppArmor 4 refuses all signals in a container with
// no_new_privs whose engine has a profile of its own (Debian 13): the processes have both profiles, and each
// of the two names itself alone as a peer. It refuses one to this process as to any other, but not signal 0.
func CanSignal() error {
	// as the Go runtime interrupts its threads: a launcher does not pass that on
	err := unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGURG)
	if err == nil {
		return nil
	}
	profile, _ := os.ReadFile("/proc/self/attr/current") // none without AppArmor
	if name := strings.TrimSpace(string(profile)); name != "" {
		return fmt.Errorf("%w (AppArmor, %s): %w", ErrNoSignals, name, err)
	}
	return fmt.Errorf("%w: %w", ErrNoSignals, err)
}
