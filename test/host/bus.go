// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// A runDir says what is in /run of a poor host.
type runDir int

const (
	runEmpty   runDir = iota
	runAsIs           // that of the host which the test runs on
	runDead           // sockets without a listener
	runForeign        // sockets in another user's directory
	runHanging        // sockets that accept and never answer
)

// prepare makes the directory in this process's view, and returns what the plan
// takes. Sockets work across the mount.
func (r runDir) prepare(tb testing.TB, uid int) (dir string, err error) {
	switch r {
	case runEmpty:
		return "", nil
	case runAsIs:
		return keepRun, nil
	}
	// Not tb.TempDir: its long names don't fit into the address of a socket.
	dir, err = os.MkdirTemp("", "run.")
	if err != nil {
		return "", err
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) }) // in the temporary directory anyway
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	// By this directory sd_booted knows a host with systemd.
	if err := os.MkdirAll(filepath.Join(dir, "systemd/system"), 0o755); err != nil {
		return "", err
	}
	top := dir
	owner := uid
	if uid != 0 {
		top = filepath.Join(dir, fmt.Sprintf("user/%d", uid))
	}
	if r == runForeign {
		owner = uid + 1
	}
	if err := r.socket(tb, filepath.Join(top, "systemd/private")); err != nil {
		return "", err
	}
	return dir, filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chown(path, owner, owner))
	})
}

// socket makes one without a listener, or that accepts and never answers.
func (r runDir) socket(tb testing.TB, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	if r == runDead {
		listener.SetUnlinkOnClose(false)
		return listener.Close()
	}
	tb.Cleanup(func() { _ = listener.Close() }) // ends the goroutine
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
		}
	}()
	return os.Chmod(path, 0o666)
}
