// SPDX-License-Identifier: Apache-2.0

package units

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/mcpscope/mcpscope/internal/atomicfile"
)

// A Result is what became of a file.
type Result string

const (
	Installed Result = "installed"
	Replaced  Result = "replaced"
	Unchanged Result = "unchanged" // it was there as it is
	Removed   Result = "removed"
	Absent    Result = "absent" // there was none to remove
)

// ErrChanged is of a file that is not as we have written it.
var ErrChanged = errors.New("it was changed, or is not a file of mcpscope: remove it yourself")

// seal begins the last line of a file: a sum of what is before. It tells an edit, and guards against
// nobody, so that it can do without crypto, which costs every start of mcpscope.
const seal = "# mcpscope units wrote this file; fnv of the lines above: "

func sealed(text string) string { return text + sealOf(text) }

func sealOf(text string) string {
	sum := fnv.New128a()
	_, _ = sum.Write([]byte(text)) // it can't fail
	return fmt.Sprintf("%s%x\n", seal, sum.Sum(nil))
}

// ours tells whether a text is as some version of us has written it.
func ours(text string) bool {
	at := strings.LastIndex(text, seal)
	return at >= 0 && text[at:] == sealOf(text[:at])
}

// look reads what is in the place of a file. What is no file, such as the link that masks a
// unit, somebody has put there.
func look(file string) (text string, err error) {
	st, err := os.Lstat(file)
	if err != nil {
		return "", err
	}
	if !st.Mode().IsRegular() {
		return "", ErrChanged
	}
	b, err := os.ReadFile(file)
	if err == nil && !ours(string(b)) {
		err = ErrChanged
	}
	return string(b), err
}

// Install writes the file, all of it or nothing. force is for one that was changed.
func (f File) Install(dir string) (Result, error) {
	target, text, result := filepath.Join(dir, f.Name), sealed(f.Text), Replaced
	old, err := look(target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		result = Installed
	case err != nil:
		return "", err
	case old == text:
		return Unchanged, nil
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return "", err
	}
	// a manager that reads units meanwhile sees the old file or the new one
	return result, atomicfile.Write(target, []byte(text), 0o644)
}

// Remove removes the file, the links by which it was enabled, and the directory of a drop-in that
// is empty then.
func (f File) Remove(dir string) (Result, error) {
	target := filepath.Join(dir, f.Name)
	_, err := look(target)
	if errors.Is(err, fs.ErrNotExist) {
		return Absent, nil
	}
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.Remove(target), disable(dir, target)); err != nil {
		return "", err
	}
	if sub := filepath.Dir(f.Name); sub != "." {
		_ = os.Remove(filepath.Join(dir, sub)) // others may have drop-ins there
	}
	return Removed, nil
}

// disable: systemctl can't do it once the unit is gone.
func disable(dir, target string) error {
	links, err := filepath.Glob(filepath.Join(dir, "*.wants", "*"))
	for _, link := range links {
		if to, e := os.Readlink(link); e == nil && to == target {
			err = errors.Join(err, os.Remove(link))
		}
	}
	return err
}
