// SPDX-License-Identifier: Apache-2.0

package units

import (
	"errors"
	"fmt"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/containment"
	"github.com/mcpscope/mcpscope/internal/remedy"
)

// DropIn is the drop-in of a gateway, with facts for its administrator.
//
// An installation calls CheckFormer, Install, CheckInForce after a daemon-reload, and RemoveFormer: the
// former drop-in applies until the new one does.
type DropIn struct {
	Gateway    Gateway
	File       File
	Flags      GatewayFlags
	GroupNote  string // where the groups of servers are made, and why; "" if that is as usual
	LogCommand string // shows the log of the service and of its servers; "" if no command does
}

// former is the drop-in under the name that former versions gave it.
func (d DropIn) former() File {
	return File{Name: path.Join(path.Dir(d.File.Name), formerDropInName)}
}

// FormerPath is the path of the drop-in that former versions have written.
func (d DropIn) FormerPath(dir string) string { return d.former().Path(dir) }

// CheckFormer returns ErrChanged if the drop-in of a former version was changed. It stays then, and would
// apply beside the new one.
func (d DropIn) CheckFormer(dir string) error { return d.former().checkRemovable(dir) }

// Install writes the drop-in.
func (d DropIn) Install(dir string) (Result, error) {
	result, err := d.File.Install(dir)
	return result, d.withPlace(err)
}

// withPlace adds how a drop-in gets to a host whose directory of units cannot be written, as on NixOS.
func (d DropIn) withPlace(err error) error {
	if !errors.Is(err, unix.EROFS) {
		return err
	}
	const text = "mcpscope units --unit %s prints the drop-in, for another place of units"
	return remedy.With(err, fmt.Sprintf(text, d.Gateway.Name.Entered))
}

// Notes are consequences of an installation that its administrator may not expect.
func (d DropIn) Notes(result Result) (notes []string) {
	s := d.Gateway.service
	if result != Unchanged {
		notes = append(notes, s.killModeNotes(d.File)...)
	}
	if result != Unchanged && !d.Flags.nameServers() {
		notes = append(notes, s.survivorNotes()...)
	}
	return append(notes, s.overriddenNotes(d.File)...)
}

// IsPending reports whether the service has yet to run by the drop-in, which was installed before: nothing
// has restarted it since.
func (d DropIn) IsPending() bool {
	s := d.Gateway.service
	switch {
	case !s.runsMcpscope(): // the manager has yet to read the drop-in
		return true
	case s.MainPID == 0 || s.isJob():
		return false
	case s.startedBefore():
		return true
	}
	return containment.FindState(s.MainPID, s.Group) == containment.Uncontained
}

// CheckInForce returns an error unless the manager starts the service by the drop-in. A drop-in that was just
// installed is removed again then: nothing has been started with it.
func (d DropIn) CheckInForce(dir string, result Result) error {
	err := inForce(d.Gateway.service)
	if err == nil || result != Installed {
		return err
	}
	_, undone := d.File.Remove(dir)
	reloaded := ReloadStep().Run()
	return errors.Join(fmt.Errorf("%w; it was removed again", err), undone, reloaded)
}

// RemoveFormer removes the drop-in that a former version has written.
func (d DropIn) RemoveFormer(dir string) (Result, error) {
	former := d.former()
	if !former.exists(dir) {
		return Absent, nil
	}
	return former.Remove(dir)
}

// RemainingSteps put the installed drop-in in force.
func (d DropIn) RemainingSteps() []Step {
	steps := []Step{ReloadStep()}
	if !d.Gateway.service.isJob() {
		steps = append(steps, systemctlStep("try-restart", d.Gateway.Name.Entered))
	}
	return steps
}

// inForce compares the command that the manager has now with the one that it had before.
func inForce(before service) error {
	after, err := readService(before.Manager, before.Name)
	if err != nil {
		return err
	}
	return checkInForce(before, service{Service: after, Manager: before.Manager})
}

func checkInForce(before, after service) error {
	if len(after.Commands) != 1 || !after.runsMcpscope() {
		return fmt.Errorf("systemd starts %q instead", after.Commands)
	}
	if before.runsMcpscope() || len(before.Commands) != 1 {
		return nil
	}
	words := after.Commands[0]
	separator := slices.Index(words, "--") // no flag of ours is a word of its own
	got := words[separator+1:]
	want := before.Commands[0]
	if !slices.Equal(got, want) {
		return fmt.Errorf("systemd reads the words %q instead of %q", got, want)
	}
	return nil
}
