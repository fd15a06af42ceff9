// SPDX-License-Identifier: Apache-2.0

// Package configfile replaces a configuration file of another program without losing data.
//
// At every moment the name refers to the complete old file or to the complete new file, with the old owner,
// mode and attributes, and a backup contains the content without mcpscope. A file that has changed since it
// was read is not replaced. The package does not parse files.
package configfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/atomicfile"
)

// A File is one that was read.
type File struct {
	Path   string // as it was asked for
	Target string // what is at the end of symbolic links
	Data   []byte
	stat   unix.Stat_t
}

// ErrChanged is a file that is another one than was read.
var ErrChanged = errors.New("another program has changed it meanwhile: run the command again")

// largest is the size of a file in MiB that is read.
const largest = 64

// Read reads a file. The result of an error has no data.
func Read(path string) (*File, error) {
	f := &File{Path: path, Target: path}
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		f.Target = followLinks(path)
		return f, cause(err)
	}
	f.Target = target
	f.Data, f.stat, err = read(target)
	return f, err
}

// followLinks returns where the links of a path end that leads to no file.
func followLinks(path string) string {
	const most = 40 // as in the kernel
	for range most {
		next, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(next) {
			next = filepath.Join(filepath.Dir(path), next)
		}
		path = next
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}

func read(path string) (data []byte, st unix.Stat_t, err error) {
	// O_NONBLOCK: do not wait for the writer of a FIFO
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, st, cause(err)
	}
	defer file.Close()
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return nil, st, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, st, errors.New("it is not a regular file")
	}
	data, err = io.ReadAll(io.LimitReader(file, largest<<20+1))
	if len(data) > largest<<20 {
		return nil, st, fmt.Errorf("it is larger than %d MiB", largest)
	}
	return data, st, cause(err)
}

// cause removes the path, which callers print themselves.
func cause(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err
	}
	return err
}

// Obstacle is why the file can't be replaced, or "".
func (f *File) Obstacle() string {
	switch {
	case f.stat.Mode&0o222 == 0:
		return "it is read-only"
	case unix.Access(f.Target, unix.W_OK) != nil:
		return "it is not writable"
	case unix.Access(filepath.Dir(f.Target), unix.W_OK|unix.X_OK) != nil:
		return "its directory is not writable"
	case f.isMount():
		return "it is a mount, and may be a file of the host; wrap it there"
	case f.stat.Nlink > 1:
		return fmt.Sprintf("it has %d names (hard links), and would keep one of them", f.stat.Nlink)
	}
	return ""
}

// Unwritable returns what its owner has to make writable first: the file or its directory. It is "" if the
// file is writable, or if this user cannot change that.
func (f *File) Unwritable() string {
	for _, path := range []string{f.Target, filepath.Dir(f.Target)} {
		var st unix.Stat_t
		err := unix.Stat(path, &st)
		isOurs := err == nil && int(st.Uid) == os.Geteuid()
		if isOurs && st.Mode&0o200 == 0 {
			return path
		}
	}
	return ""
}

// Owner returns the user of the file.
func (f *File) Owner() int { return int(f.stat.Uid) }

// isMount: the kernel renames no file over a mount (EBUSY).
func (f *File) isMount() bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, f.Target, 0, unix.STATX_TYPE, &st)
	return err == nil && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// put renames a new file over the old one, with the owner, mode and attributes of the old one.
func (f *File) put(data []byte) error {
	return cause(atomicfile.WriteAs(f.Target, data, f.dress, f.CheckUnchanged))
}

func (f *File) dress(temp *os.File) error {
	fd := int(temp.Fd())
	if err := f.own(fd); err != nil {
		return err
	}
	if err := dropAccessList(fd); err != nil {
		return err
	}
	if err := unix.Fchmod(fd, f.stat.Mode&0o7777); err != nil {
		return err
	}
	f.copyAttributes(fd)
	return nil
}

// guard is dress for a backup. It may contain keys, so only the owner can read it.
func (f *File) guard(temp *os.File) error {
	fd := int(temp.Fd())
	return errors.Join(f.own(fd), unix.Fchmod(fd, 0o600))
}

func (f *File) own(fd int) error {
	if f.stat.Uid != uint32(os.Geteuid()) || f.stat.Gid != uint32(os.Getegid()) {
		if err := unix.Fchown(fd, int(f.stat.Uid), int(f.stat.Gid)); err != nil {
			return fmt.Errorf("keep its owner: %w", err)
		}
	}
	return nil
}

// dropAccessList removes the list that a new file inherits from its directory, before a mode gives it effect.
// That of the old file is an attribute.
func dropAccessList(fd int) error {
	const list = "system.posix_acl_access"
	if _, err := unix.Fgetxattr(fd, list, nil); err != nil { // there is none, or the file system has none
		return nil
	}
	if err := unix.Fremovexattr(fd, list); err != nil {
		return fmt.Errorf("remove an inherited access list: %w", err)
	}
	return nil
}

// copyAttributes: access lists are attributes too. Those that are the system's business can't be set, and
// need not be: it gives the new file its own.
func (f *File) copyAttributes(fd int) {
	names := make([]byte, 64<<10)
	n, err := unix.Listxattr(f.Target, names)
	if err != nil {
		return
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names[:n]), "\x00"), "\x00") {
		value := make([]byte, 64<<10)
		if n, err := unix.Getxattr(f.Target, name, value); err == nil && name != "" {
			_ = unix.Fsetxattr(fd, name, value[:n], 0)
		}
	}
}

// CheckUnchanged returns [ErrChanged] if the file is another one than was read.
func (f *File) CheckUnchanged() error {
	data, st, err := read(f.Target)
	if err != nil {
		return err
	}
	if st.Dev != f.stat.Dev || st.Ino != f.stat.Ino || st.Mode != f.stat.Mode || !bytes.Equal(data, f.Data) {
		return ErrChanged
	}
	return nil
}
