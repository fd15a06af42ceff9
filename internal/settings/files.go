// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// a test builds with another
var system = "/etc/mcpscope/mcpscope.toml"

// System is the file of the administrator.
func System() string { return system }

// UserFile is a user's file, below UserDir.
const UserFile = "/mcpscope/mcpscope.toml"

// FileVariable contains the path of an additional file.
const FileVariable = "MCPSCOPE_CONFIG"

// maxText limits the size of a file, which is read at each start of a server.
const maxText = 64 << 10

// FilePlace is a possible file.
type FilePlace struct {
	Path  string
	Asked bool // named by the environment, so it must exist
}

// FilePlaces returns the possible files: the system's, the user's, and that of the environment. Later files
// override earlier files.
func FilePlaces(getenv func(string) string) []FilePlace {
	places := []FilePlace{{Path: system}}
	if dir := UserDir(getenv); dir != "" {
		places = append(places, FilePlace{Path: filepath.Join(dir, UserFile)})
	}
	if file := getenv(FileVariable); file != "" {
		places = append(places, FilePlace{Path: file, Asked: true})
	}
	return places
}

// UserDir returns the directory for configuration files of a user, or "". A relative path is
// ignored: it depends on the working directory of the client.
func UserDir(getenv func(string) string) string {
	if dir := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return dir
	}
	if home := Home(getenv); home != "" {
		return filepath.Join(home, ".config")
	}
	return ""
}

// Home returns the home directory of the user, or "". Services of the system and cron may have no HOME: then
// it is that of passwd(5), as in a shell.
func Home(getenv func(string) string) string {
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return home
	}
	self, err := user.Current()
	if err != nil || !filepath.IsAbs(self.HomeDir) {
		return ""
	}
	return self.HomeDir
}

// read returns nil if an optional file does not exist.
func (p FilePlace) read() ([]byte, error) {
	// O_NONBLOCK: a FIFO must not delay a server
	fd, err := unix.Open(p.Path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if !p.Asked && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	err = checkOwner(fd)
	_ = unix.SetNonblock(fd, false) // package os makes a poller for a file with that flag
	f := os.NewFile(uintptr(fd), p.Path)
	defer f.Close()
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxText+1))
	if err == nil && len(text) > maxText {
		return nil, fmt.Errorf("ignored: longer than %d bytes", maxText)
	}
	return text, err
}

// checkOwner: XDG_CONFIG_HOME or HOME may belong to another user (sudo, su), who could then choose the file
// to which root writes its reports.
func checkOwner(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	uid := os.Geteuid()
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return errors.New("ignored: not a regular file")
	case st.Uid != 0 && int(st.Uid) != uid:
		return fmt.Errorf("ignored: it belongs to uid %d, not to root or uid %d", st.Uid, uid)
	case st.Mode&unix.S_IWOTH != 0: // a group may write: Debian and Fedora give each user one, with umask 002
		return errors.New("ignored: writable for all users")
	}
	return nil
}
