// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A bootPlan has the facts for the process that becomes PID 1. ReadOnly and
// Writable are files and directories of the machine that the host has as well.
type bootPlan struct {
	ReadOnly, Writable []string
	Users              bool
}

// plan adds what the tests could not run without. The host's own /tmp hides where
// go test puts the binary, and a log that the binary has to write.
func (o Options) plan() (bootPlan, error) {
	module, err := moduleRoot()
	if err != nil {
		return bootPlan{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return bootPlan{}, err
	}
	p := bootPlan{ReadOnly: []string{module}, Writable: slices.Clone(o.Writable), Users: o.Users}
	if dir := filepath.Dir(self); madeByGoTest(dir) {
		p.Writable = append(p.Writable, dir)
	} else {
		p.ReadOnly = append(p.ReadOnly, self)
	}
	return p, nil
}

// madeByGoTest recognises go-build123/b001. No other directory may be writable in the
// host: that of a binary which someone has put into /tmp would be /tmp itself, and
// systemd makes and removes files there.
func madeByGoTest(dir string) bool {
	work := filepath.Base(filepath.Dir(dir))
	return strings.HasPrefix(work, "go-build") && strings.HasPrefix(filepath.Base(dir), "b")
}

func moduleRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		_, err := os.Stat(filepath.Join(dir, "go.mod"))
		if !errors.Is(err, fs.ErrNotExist) || dir == "/" {
			return dir, err
		}
	}
}
