// SPDX-License-Identifier: Apache-2.0

package units

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/remedy"
)

// DropInRemoval is the removal of the drop-ins of a service.
type DropInRemoval struct {
	Name    ServiceName
	HasUnit bool // false if the manager has no unit file of the service
	dir     string
	files   []File // at least one, which may be absent
	service systemd.Service
}

// PlanDropInRemoval finds the drop-ins of a service, also those for its other names. Without systemd, files
// can be removed all the same.
func PlanDropInRemoval(name ServiceName, dir string) (DropInRemoval, error) {
	s, err := findService(name)
	removal := DropInRemoval{
		Name:    name,
		HasUnit: !errors.Is(err, systemd.ErrNoUnit),
		dir:     dir,
		files:   dropInsToRemove(name.Full, dir, s),
		service: s,
	}
	if !removal.HasUnit && !removal.files[0].exists(dir) {
		return DropInRemoval{}, err
	}
	return removal, nil
}

func findService(name ServiceName) (systemd.Service, error) {
	c, err := systemd.Connect(systemd.Own())
	if err != nil {
		return systemd.Service{}, err
	}
	defer c.Close()
	return readService(c, name)
}

// dropInsToRemove lists the drop-in of a unit, and all others of mcpscope that its manager has read for it.
// Only a single one may be absent.
func dropInsToRemove(unit, dir string, s systemd.Service) []File {
	files := []File{{Name: dropInOf(unit)}}
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

// Remove removes the drop-ins.
func (r DropInRemoval) Remove() []FileResult {
	return forEach(r.files, r.dir, func(file File) (Result, error) { return file.Remove(r.dir) })
}

// IsPending reports whether the manager has yet to read that the drop-in of the service was removed. An
// earlier removal, or rm, has left that to do.
func (r DropInRemoval) IsPending() bool {
	hasDropIn := slices.ContainsFunc(r.service.DropIns, isDropInName)
	return r.service.Outdated || hasDropIn && runsGateway(r.service)
}

// Steps put the removal in force.
func (r DropInRemoval) Steps() []Step {
	steps := []Step{ReloadStep()}
	if r.HasUnit && !isJob(r.service) {
		steps = append(steps, r.Name.tryRestart()) // a removal starts no service
	}
	return steps
}

// CheckInForce returns an error unless the manager starts the service without mcpscope.
func (r DropInRemoval) CheckInForce() error {
	s, err := findService(r.Name)
	if err != nil {
		return err
	}
	if !runsGateway(s) {
		return nil
	}
	files := slices.Concat([]string{s.Fragment}, s.DropIns)
	err = errors.New("its command is still mcpscope gateway, by one of " + strings.Join(files, ", "))
	return remedy.With(err, systemctl()+" cat "+cli.Word(r.Name.Entered))
}
