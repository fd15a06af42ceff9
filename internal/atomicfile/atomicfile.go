// SPDX-License-Identifier: Apache-2.0

// Package atomicfile replaces files: at every moment, and after a crash of the machine, there is
// the old file or the new one under the name, whole. It replaces only regular files.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Write replaces the file, or makes it, with that mode whatever the umask is.
func Write(path string, data []byte, mode os.FileMode) error {
	return WriteAs(path, data, func(f *os.File) error { return f.Chmod(mode) }, func() error { return nil })
}

// WriteAs is Write for a file that is not like every other one. dress sees the new file while it
// is empty and no other process uses it; an error of last, which is called just before the new file gets the
// name, leaves the old one.
func WriteAs(path string, data []byte, dress func(*os.File) error, last func() error) error {
	if err := checkReplaceable(path); err != nil {
		return err
	}
	defer DeferSignals()()
	dir, err := os.Open(filepath.Dir(path)) // without the right to read it, nothing is changed
	if err != nil {
		return err
	}
	defer dir.Close()
	temp, err := os.CreateTemp(filepath.Dir(path), ".mcpscope-*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // unless it has the name
	if err = errors.Join(fill(temp, data, dress), temp.Close()); err != nil {
		return err
	}
	if err = last(); err != nil {
		return err
	}
	if err = os.Rename(temp.Name(), path); err != nil {
		return err
	}
	_ = dir.Sync() // the file is the new one; after a crash of the machine it may be the old one
	return nil
}

// ErrNotRegular is of a path that is not an ordinary file.
var ErrNotRegular = errors.New("only an ordinary file can be replaced")

// checkReplaceable refuses everything but a regular file and a new name. Programs that use a device, a FIFO
// or a socket would go on with the old one, or find a file in its place. A symbolic link is the decision of a
// person: a caller that follows links says so in its documents, and gives the target.
func checkReplaceable(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().IsRegular():
		return nil
	}
	why := fmt.Errorf("it is %s: %w", kindOf(info.Mode()), ErrNotRegular)
	return &fs.PathError{Op: "replace", Path: path, Err: why}
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

// DeferSignals lets signals that ask this program to exit wait until the returned function is called: the
// temporary file would be left. Those that are ignored, as with nohup, stay ignored.
func DeferSignals() (deliver func()) {
	signals := []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT}
	signals = slices.DeleteFunc(signals, signal.Ignored)
	received := make(chan os.Signal, 1)
	signal.Notify(received, signals...)
	return func() {
		signal.Stop(received)
		select {
		case sig := <-received:
			_ = unix.Kill(os.Getpid(), sig.(unix.Signal)) // this process, which has its own action again
		default:
		}
	}
}

func fill(temp *os.File, data []byte, dress func(*os.File) error) error {
	if err := dress(temp); err != nil {
		return err
	}
	if _, err := temp.Write(data); err != nil {
		return err
	}
	return temp.Sync()
}
