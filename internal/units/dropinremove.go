// SPDX-License-Identifier: Apache-2.0

package units

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/remedy"
)

// DropInRemoval is the removal of the drop-ins of a service.
type DropInRemoval struct {
	Name    ServiceName
	Files   []File // those of this version and of former ones; at least one, which may be absent
	HasUnit bool   // false if the manager has no unit file of the service
	service service
}

// PlanDropInRemoval finds the drop-ins of a service, also those for its other names. Without systemd, files
// can be removed all the same.
func PlanDropInRemoval(name ServiceName, dir string) (DropInRemoval, error) {
	s, err := readService(systemd.Own(), name.Full)
	removal := DropInRemoval{
		Name:    name,
		Files:   dropInsToRemove(name.Full, dir, s),
		HasUnit: !errors.Is(err, systemd.ErrNoService),
		service: service{Service: s, Manager: systemd.Own()},
	}
	if !removal.HasUnit && !removal.Files[0].exists(dir) {
		return DropInRemoval{}, err
	}
	return removal, nil
}

// dropInsToRemove lists the drop-in of a unit, and all others of mcpscope that its manager has read for it.
// Only a single one may be absent.
func dropInsToRemove(unit, dir string, s systemd.Service) []File {
	files := []File{{Name: dropInOf(unit)}}
	former := File{Name: formerDropInOf(unit)}
	if former.exists(dir) {
		files = append(files, former)
	}
	for _, path := range s.DropIns {
		name, err := filepath.Rel(dir, path)
		file := File{Name: name}
		if err == nil && isDropInName(path) && file.exists(dir) && !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	if len(files) > 1 && !files[0].exists(dir) {
		files = files[1:]
	}
	return files
}

// IsPending reports whether the manager has yet to read that the drop-in of the service was removed. An
// earlier removal, or rm, has left that to do.
func (r DropInRemoval) IsPending() bool {
	s := r.service
	hasDropIn := slices.ContainsFunc(s.DropIns, isDropInName)
	return s.Outdated || hasDropIn && s.runsMcpscope()
}

// Steps put the removal in force.
func (r DropInRemoval) Steps() []Step {
	steps := []Step{ReloadStep()}
	if r.HasUnit && !r.service.isJob() {
		steps = append(steps, systemctlStep("try-restart", r.Name.Entered)) // a removal starts no service
	}
	return steps
}

// CheckInForce returns an error unless the manager starts the service without mcpscope.
func (r DropInRemoval) CheckInForce() error {
	s, err := readService(systemd.Own(), r.Name.Full)
	if err != nil {
		return err
	}
	if !(service{Service: s}).runsMcpscope() {
		return nil
	}
	files := slices.Concat([]string{s.Fragment}, s.DropIns)
	err = errors.New("its command is still mcpscope gateway, by one of " + strings.Join(files, ", "))
	return remedy.With(err, systemctlCommand(systemd.Own())+" cat "+r.Name.Entered)
}
