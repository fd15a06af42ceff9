// SPDX-License-Identifier: Apache-2.0

//go:build linux

package settings

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// system is the administrator's file. A test gives a build another.
var system = "/etc/mcpscope/mcpscope.toml"

// FileVariable names one file more.
const FileVariable = "MCPSCOPE_CONFIG"

// maxText is how much is read: a file is a page or two, and is read at each start.
const maxText = 64 << 10

// A FilePlace is where a file may be.
type FilePlace struct {
	Path string
	// Asked: somebody has named it, so that it has to be there.
	Asked bool
}

// FilePlaces are where files are looked for, those that count most last: the system's, the
// user's, and the one that the environment names.
func FilePlaces(getenv func(string) string) []FilePlace {
	places := []FilePlace{{Path: system}}
	if dir := UserDir(getenv); dir != "" {
		places = append(places, FilePlace{Path: filepath.Join(dir, "mcpscope", "mcpscope.toml")})
	}
	if file := getenv(FileVariable); file != "" {
		places = append(places, FilePlace{Path: file, Asked: true})
	}
	return places
}

// UserDir is where a user's programs have their configuration, "" where a client has passed neither variable on. A relative path is none: it would
// lead to whatever directory the client is in.
func UserDir(getenv func(string) string) string {
	if dir := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return dir
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".config")
	}
	return ""
}

// read returns nil for a file that is not there, and nobody has asked for.
func (p FilePlace) read() ([]byte, error) {
	// a FIFO must not keep a server waiting
	fd, err := unix.Open(p.Path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if !p.Asked && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), p.Path)
	defer f.Close()
	if err := checkOwner(fd); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxText+1))
	var path *os.PathError
	switch {
	case errors.As(err, &path):
		return nil, path.Err // who asks knows the path
	case err != nil:
		return nil, err
	case len(text) > maxText:
		return nil, fmt.Errorf("ignored: longer than %d bytes", maxText)
	}
	return text, nil
}

// checkOwner: XDG_CONFIG_HOME or HOME may be another user's (sudo, su), who would then choose where
// root writes its reports.
func checkOwner(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	uid := os.Geteuid()
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return errors.New("ignored: no regular file")
	case st.Uid != 0 && int(st.Uid) != uid:
		return fmt.Errorf("ignored: it belongs to uid %d, neither to root nor to uid %d", st.Uid, uid)
	case st.Mode&unix.S_IWOTH != 0:
		return errors.New("ignored: everybody may write it")
	}
	return nil
}
