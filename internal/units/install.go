// SPDX-License-Identifier: Apache-2.0

package units

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/mcpscope/mcpscope/internal/atomicfile"
)

// A Result is the outcome for one file.
type Result string

const (
	Installed Result = "installed"
	Replaced  Result = "replaced"
	Unchanged Result = "unchanged" // it was there as it is
	Removed   Result = "removed"
	Absent    Result = "absent" // there was none to remove
)

// ErrChanged is of a file that is not as we have written it.
var ErrChanged = errors.New("it was changed, or is not a file of mcpscope")

// unit is the unit to which the file belongs.
func (f File) unit() string {
	if dir := filepath.Dir(f.Name); dir != "." {
		return strings.TrimSuffix(dir, ".d")
	}
	return f.Name
}

// hintForChanged returns commands for a file that stays because it was changed, or "" for another error.
// mcpscope does not remove such a file: it may have settings that are nowhere else.
func (f File) hintForChanged(err error, dir string) string {
	if !errors.Is(err, ErrChanged) {
		return ""
	}
	unit := shellWord(strings.TrimSuffix(f.unit(), ".service"))
	systemctl := systemctlStep().String() + " "
	steps := []string{
		"rm " + shellWord(filepath.Join(dir, f.Name)),
		systemctl + "daemon-reload",
		systemctl + "try-restart " + unit,
	}
	return strings.Join(steps, " && ") + "; put changes into: " + systemctl + "edit " + unit
}

// Written is in each file that mcpscope units has written.
const Written = "# mcpscope units wrote this file"

// seal begins the last line of a file, which contains a checksum of the lines above. It reveals edits.
const seal = Written + "; crc of the lines above: "

func sealed(text string) string {
	return fmt.Sprintf("%s%s%08x\n", text, seal, crc32.ChecksumIEEE([]byte(text)))
}

// isSealed reports whether a text is as mcpscope has written it.
func isSealed(text string) bool {
	body, _, _ := strings.Cut(text, seal)
	return sealed(body) == text
}

// current reads the file at a path. The error is ErrChanged unless a version of mcpscope wrote it. A link,
// such as that of a masked unit, was made by a user.
func current(file string) (string, error) {
	st, err := os.Lstat(file)
	if err != nil {
		return "", err
	}
	b, err := os.ReadFile(file)
	if err == nil && (!st.Mode().IsRegular() || !isSealed(string(b))) {
		err = ErrChanged
	}
	return string(b), err
}

// exists reports whether there is such a file that mcpscope has written, even if it was changed since.
func (f File) exists(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, f.Name))
	return err == nil && strings.Contains(string(text), Written)
}

// checkRemovable returns ErrChanged for a file of mcpscope that was changed since.
func (f File) checkRemovable(dir string) error {
	if !f.exists(dir) {
		return nil
	}
	_, err := current(filepath.Join(dir, f.Name))
	return err
}

// Install writes the file as a whole, or not at all.
func (f File) Install(dir string) (Result, error) {
	target, text, result := filepath.Join(dir, f.Name), sealed(f.Text), Replaced
	old, err := current(target)
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
	_, err := current(target)
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

// disable runs before the file is removed: afterwards systemctl cannot do it. A link with the name of the
// unit may have the unit of a package as its target. That was enabled before, and would start at the next
// boot.
func disable(dir, target string) error {
	links, err := filepath.Glob(filepath.Join(dir, "*.wants", "*"))
	for _, link := range links {
		to, notLink := os.Readlink(link)
		if notLink != nil {
			continue
		}
		if to == target || filepath.Base(link) == filepath.Base(target) {
			err = errors.Join(err, os.Remove(link))
		}
	}
	return err
}
