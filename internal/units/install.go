// SPDX-License-Identifier: Apache-2.0

package units

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/atomicfile"
	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/remedy"
)

// A Result is the outcome for one file.
type Result string

// The results of an installation and of a removal.
const (
	Installed Result = "installed"
	Replaced  Result = "replaced"
	Unchanged Result = "unchanged" // it was there as it is
	Removed   Result = "removed"
	Disabled  Result = "disabled" // the unit of a package, which stays
	Absent    Result = "absent"   // there was none to remove or to disable
	Restored  Result = "restored" // it is what it was before the installation
	Packaged  Result = "packaged" // a package has it: there is no copy, and it stays
)

// FileResult is the outcome for a file at a path, or the error.
type FileResult struct {
	Path   string
	Result Result
	Err    error
}

// forEach changes each file that it can.
func forEach(files []File, dir string, change func(File) (Result, error)) []FileResult {
	var results []FileResult
	for _, file := range files {
		result, err := change(file)
		results = append(results, FileResult{Path: file.Path(dir), Result: result, Err: err})
	}
	return results
}

// AnyChanged reports whether a file is different now.
func AnyChanged(results []FileResult) bool {
	return slices.ContainsFunc(results, func(r FileResult) bool {
		return r.Err == nil && r.Result != Unchanged && r.Result != Absent && r.Result != Packaged
	})
}

const fileMode = 0o644

// ErrChanged is of a file that is not as we have written it.
var ErrChanged = errors.New("it was changed, or is not a file of mcpscope")

// unit is the unit to which the file belongs.
func (f File) unit() string {
	if dir := filepath.Dir(f.Name); dir != "." {
		return strings.TrimSuffix(dir, ".d")
	}
	return f.Name
}

// withHint adds commands to the error of a file that stays because it was changed. mcpscope does not remove
// such a file: it may have settings that are nowhere else.
func (f File) withHint(err error, dir string) error {
	if !errors.Is(err, ErrChanged) {
		return err
	}
	unit := cli.Word(strings.TrimSuffix(f.unit(), ".service"))
	steps := []string{
		"rm " + cli.Word(f.Path(dir)),
		systemctl() + " daemon-reload",
		systemctl() + " try-restart " + unit,
	}
	return remedy.With(err, strings.Join(steps, " && ")+"; put changes into: "+systemctl()+" edit "+unit)
}

// Written is in each file that mcpscope units has written.
const Written = "# mcpscope units wrote this file"

// seal begins the last line of a file, which contains a checksum of the lines above. It reveals edits.
const seal = Written + "; crc of the lines above: "

func sealed(text string) string {
	return fmt.Sprintf("%s%s%08x\n", text, seal, crc32.ChecksumIEEE([]byte(text)))
}

// isSealed reports whether a text is as mcpscope has written it, or has printed it.
func isSealed(text string) bool {
	body, _, _ := strings.Cut(text, seal)
	return sealed(body) == strings.TrimRight(text, "\n")+"\n"
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
	text, err := os.ReadFile(f.Path(dir))
	return err == nil && strings.Contains(string(text), Written)
}

// Sealed is the text as it is installed: with a checksum of its lines.
func (f File) Sealed() string { return sealed(f.Text) }

// Install writes the file as a whole, or not at all.
func (f File) Install(dir string) (Result, error) {
	target := f.Path(dir)
	text := sealed(f.Text)
	result := Replaced
	old, err := current(target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		result = Installed
	case err != nil:
		return "", f.withHint(err, dir)
	case old == text:
		return Unchanged, nil
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return "", err
	}
	// A manager that reads units meanwhile reads the old file or the new one.
	return result, atomicfile.Write(target, []byte(text), fileMode)
}

// Remove removes the file, the links by which it was enabled, and the directory of a drop-in that
// is empty then. The unit of a package stays, and is disabled.
func (f File) Remove(dir string) (Result, error) {
	target := f.Path(dir)
	_, err := current(target)
	isPackaged := errors.Is(err, fs.ErrNotExist)
	switch {
	case isPackaged && len(linksOf(dir, target)) == 0:
		return Absent, nil
	case !isPackaged && err != nil:
		return "", f.withHint(err, dir)
	}
	if err := disable(dir, target); err != nil {
		return "", err
	}
	if isPackaged {
		return Disabled, nil
	}
	if err := unix.Unlink(target); err != nil { // without the path, which the caller has
		return "", err
	}
	if sub := filepath.Dir(f.Name); sub != "." {
		_ = os.Remove(filepath.Join(dir, sub)) // others may have drop-ins there
	}
	return Removed, nil
}

// disable removes the links by which a unit is enabled. It runs before the file is removed: without it a
// copy of the unit would start at the next boot.
func disable(dir, target string) error {
	var err error
	for _, link := range linksOf(dir, target) {
		err = errors.Join(err, os.Remove(link))
	}
	return err
}

// linksOf finds the links by which a unit is enabled. One with the name of the unit may have the unit of a
// package as its target.
func linksOf(dir, target string) (links []string) {
	all, _ := filepath.Glob(filepath.Join(dir, "*.wants", "*")) // the directory is not a pattern of its own
	for _, link := range all {
		destination, err := os.Readlink(link)
		if err != nil { // it is no link
			continue
		}
		if destination == target || filepath.Base(link) == filepath.Base(target) {
			links = append(links, link)
		}
	}
	return links
}
