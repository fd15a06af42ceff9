// SPDX-License-Identifier: Apache-2.0

// Package units has the unit files that mcpscope comes with, and puts them into a directory.
//
// A file that was edited is not replaced or removed: the last line of each contains a checksum. There is no
// other state. The package sends no requests to systemd.
package units

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
)

//go:embed system user common gateway.conf
var files embed.FS

// Manager is whose units they are; its text is the name of systemd's directories.
type Manager string

const (
	System Manager = "system"
	User   Manager = "user"
)

// A File is a unit file.
type File struct {
	Name string // below the directory of units
	Text string
}

// All are the units of a manager, by name.
func All(m Manager, by Programs) []File {
	var all []File
	for _, dir := range []string{string(m), "common"} {
		entries, err := files.ReadDir(dir)
		if err != nil {
			panic(err) // they are embedded
		}
		for _, e := range entries {
			all = append(all, File{e.Name(), text(path.Join(dir, e.Name()), by)})
		}
	}
	slices.SortFunc(all, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Programs are the paths of the two programs, as a unit has to spell them.
type Programs struct{ Mcpscope, Mcpscopectl string }

func text(file string, by Programs) string {
	b, err := files.ReadFile(file)
	if err != nil {
		panic(err) // it is embedded
	}
	// as `make install` does
	return strings.NewReplacer("@MCPSCOPE@", by.Mcpscope, "@MCPSCOPECTL@", by.Mcpscopectl).Replace(string(b))
}

// CheckService completes the name of a service, from which a path is made.
func CheckService(name string) (string, error) {
	full := strings.TrimSuffix(name, ".service") + ".service"
	for _, r := range full {
		if !strings.ContainsRune(`abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_.\@`, r) {
			return "", fmt.Errorf("%q is no name of a service", name)
		}
	}
	if len(full) > 255-len(".d") || full[0] == '.' {
		return "", fmt.Errorf("%q is no name of a service", name)
	}
	return full, nil
}
