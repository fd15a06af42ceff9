// SPDX-License-Identifier: Apache-2.0

package units

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/containment"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// runGateway prints, installs or removes the drop-in of a gateway.
func (f *Request) runGateway(dir string, io cli.Stdio) int {
	const goal = "find the command of the gateway"
	unit, err := CheckService(f.Unit)
	if err != nil {
		return io.Cannot(goal, err)
	}
	if f.Remove {
		return f.removeDropIn(unit, dir, io)
	}
	if isTemplate(unit) {
		instance := strings.TrimSuffix(unit, ".service") + "1"
		return io.Cannot(goal, fmt.Errorf("%s is a template: name an instance, such as %s", unit, instance))
	}
	s, err := f.upToDate(unit)
	if errors.Is(err, errOutdated) {
		return io.CannotWithHint(goal, err, systemctlStep("daemon-reload").String())
	}
	if err != nil {
		return io.Cannot(goal, err)
	}
	flags, about, err := f.flagsFor(s)
	if err != nil {
		again := fmt.Sprintf("mcpscope units --unit %s --remove --now, then install it again", f.Unit)
		return io.CannotWithHint("keep the flags of the drop-in", err, again)
	}
	flags, kept := s.keepInGroup(flags)
	if kept != "" {
		about = append(about, kept)
	}
	file, err := dropIn(s, InstalledPrograms(), flags...)
	if err != nil {
		return io.Cannot("run "+f.Unit+" below mcpscope", err)
	}
	if !f.Install {
		printFiles([]File{file}, dir, io)
		return cli.ExitOK
	}
	if line := s.logLine(file); line != "" {
		about = append(about, line)
	}
	return f.installDropIn(s, file, dir, io, about...)
}

// flagsFor returns the flags for the drop-in of a service, and a line about them. An installation without
// flags, such as one after a change of the command, keeps those of the drop-in.
func (f *Request) flagsFor(s service) (flags, about []string, err error) {
	if len(f.GatewayFlags) > 0 {
		return f.GatewayFlags, []string{"flags: " + printableFlags(f.GatewayFlags)}, nil
	}
	flags = s.keptFlags()
	if len(flags) == 0 {
		return nil, nil, nil
	}
	if _, _, err := settings.Defaults().FromArguments(settings.Gateway, flags); err != nil {
		return nil, nil, err
	}
	return flags, []string{"kept: " + printableFlags(flags)}, nil
}

// errOutdated: the command that systemd shows may not be the one of the files.
var errOutdated = errors.New("its files have changed since systemd read them")

// upToDate reads a service whose files its manager has read.
func (f *Request) upToDate(unit string) (service, error) {
	s, err := loadService(systemd.Own(), unit)
	if err != nil || !s.Outdated {
		return s, err
	}
	if !f.Now {
		return s, fmt.Errorf("%s: %w", unit, errOutdated)
	}
	if err := systemctlStep("daemon-reload").run(); err != nil {
		return s, err
	}
	return loadService(systemd.Own(), unit)
}

// installDropIn succeeds with --now only if the servers of the running gateway can be contained. It prints
// the lines about the file after its result.
func (f *Request) installDropIn(s service, file File, dir string, io cli.Stdio, about ...string) int {
	target, former := filepath.Join(dir, file.Name), File{Name: formerDropInOf(s.Name)}
	if err := former.checkRemovable(dir); err != nil {
		goal := "replace " + filepath.Join(dir, former.Name)
		return io.CannotWithHint(goal, err, former.hintForChanged(err, dir))
	}
	result, err := file.Install(dir)
	if err != nil {
		hint := file.hintForChanged(err, dir)
		if errors.Is(err, unix.EROFS) {
			hint = "mcpscope units --unit " + f.Unit + " prints the drop-in, for another place of units"
		}
		return io.CannotWithHint("install "+target, err, hint)
	}
	fmt.Fprintf(io.Out, "%s %s\n", result, cli.OneLine(target))
	for _, line := range about {
		fmt.Fprintln(io.Out, cli.OneLine(line))
	}
	if note := s.killModeNote(file); note != "" && result != Unchanged {
		io.Note(note)
	}
	for _, note := range s.overriddenNotes(file) {
		io.Note(note)
	}
	reload := systemctlStep("daemon-reload")
	if f.Now {
		if status := runSteps([]step{reload}, io); status != cli.ExitOK {
			return status
		}
		if err := inForce(s); err != nil {
			if result == Installed { // nothing has been started with it
				_, undone := file.Remove(dir)
				err = errors.Join(fmt.Errorf("%w; it was removed again", err), undone, reload.run())
			}
			return io.Cannot("put "+target+" in force", err)
		}
	}
	replaced := former.exists(dir)
	if replaced {
		if _, err := former.Remove(dir); err != nil {
			return io.Cannot("remove "+filepath.Join(dir, former.Name), err)
		}
		fmt.Fprintf(io.Out, "%s %s\n", Removed, cli.OneLine(filepath.Join(dir, former.Name)))
	}
	if f.Now {
		return f.startWithDropIn(s, replaced, io)
	}
	steps := []step{reload}
	if !s.isJob() {
		steps = append(steps, systemctlStep("try-restart", f.Unit))
	}
	if result != Unchanged || replaced {
		fmt.Fprintf(io.Out, "now: %s\n", joinSteps(steps))
	}
	return cli.ExitOK
}

// startWithDropIn restarts a gateway whose drop-in is in force, and checks it.
func (f *Request) startWithDropIn(s service, outdated bool, io cli.Stdio) int {
	if outdated { // the manager has the former drop-in, too
		reload := systemctlStep("daemon-reload")
		if err := reload.run(); err != nil {
			return io.Cannot(reload.String(), err)
		}
	}
	if s.isJob() {
		fmt.Fprintf(io.Err, "mcpscope: note: %s is Type=oneshot: it was not started, so it is not known "+
			"whether its servers can be contained\n", f.Unit)
		io.Hint("after its next start: " + journalCommand(s.Manager) + " -u " + s.Name)
		return cli.ExitOK
	}
	if s.ActiveState == "inactive" { // a person has stopped it, or has never started it
		io.Note(s.Name + " does not run, and was not started: it is not known whether its servers " +
			"can be contained")
		start := systemctlStep("start", f.Unit).String()
		io.Hint(start + " && mcpscope units --unit " + f.Unit + " --install --now")
		return cli.ExitOK
	}
	if status := runSteps([]step{systemctlStep("restart", f.Unit)}, io); status != cli.ExitOK {
		io.Hint("the drop-in stays; to undo it: mcpscope units --unit " + f.Unit + " --remove --now")
		return status
	}
	return f.check(io)
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
	separator := slices.Index(after.Commands[0], "--") // no flag of ours is a word of its own
	got, want := after.Commands[0][separator+1:], before.Commands[0]
	if !slices.Equal(got, want) {
		return fmt.Errorf("systemd reads the words %q instead of %q", got, want)
	}
	return nil
}

// removeDropIn removes the drop-ins of this version and of former ones, also those for other names of the
// unit.
func (f *Request) removeDropIn(unit, dir string, io cli.Stdio) int {
	s, err := readService(systemd.Own(), unit)
	files := dropInsToRemove(unit, dir, s)
	if errors.Is(err, systemd.ErrNoService) && !files[0].exists(dir) && len(files) == 1 {
		return io.Cannot("remove the drop-in of "+f.Unit, err)
	}
	steps := []step{systemctlStep("daemon-reload")}
	hasUnit := !errors.Is(err, systemd.ErrNoService)
	if hasUnit && !(service{Service: s}).isJob() { // without systemd, files are removed and steps printed
		steps = append(steps, systemctlStep("try-restart", f.Unit)) // a removal starts no service
	}
	status, changed := change(files, dir, io, "remove", File.Remove)
	if !changed && (status != cli.ExitOK || !removalIsPending(service{Service: s})) {
		return status
	}
	if !hasUnit {
		io.Note("there is no unit file of " + f.Unit + ": a process of it that still runs is below " +
			"mcpscope until it ends")
	}
	status = f.finish(status, steps, io)
	if !f.Now || status != cli.ExitOK || !hasUnit {
		return status
	}
	return f.checkRemoved(unit, io)
}

// dropInsToRemove lists the drop-in of a unit, and all others of mcpscope that its manager has read for it.
func dropInsToRemove(unit, dir string, s systemd.Service) []File {
	files := []File{{Name: dropInOf(unit)}}
	if former := (File{Name: formerDropInOf(unit)}); former.exists(dir) {
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

// checkRemoved reports a service that still has mcpscope in its command.
func (f *Request) checkRemoved(unit string, io cli.Stdio) int {
	s, err := readService(systemd.Own(), unit)
	if err != nil || !(service{Service: s}).runsMcpscope() {
		return cli.ExitOK
	}
	files := strings.Join(append([]string{s.Fragment}, s.DropIns...), ", ")
	err = errors.New("its command is still mcpscope gateway, by one of " + files)
	hint := systemctlCommand(systemd.Own()) + " cat " + f.Unit
	return io.CannotWithHint("take "+f.Unit+" out of mcpscope", err, hint)
}

// removalIsPending reports whether the manager has yet to read that the drop-in of a service was removed. An
// earlier removal, or rm, has left that to do.
func removalIsPending(s service) bool {
	hasDropIn := slices.ContainsFunc(s.DropIns, isDropInName)
	return s.Outdated || hasDropIn && s.runsMcpscope()
}

// check reports a service whose servers cannot be contained. Everything else has succeeded by then.
func (f *Request) check(io cli.Stdio) int {
	unit, err := CheckService(f.Unit)
	if err != nil {
		return io.Cannot("find the service", err)
	}
	goal := "see whether the servers of " + f.Unit + " are contained"
	c, err := AwaitContainment(systemd.Own(), unit)
	switch {
	case err != nil:
		systemctl := systemctlCommand(systemd.Own())
		back := "mcpscope units --unit " + f.Unit + " --remove --now && " + systemctl + " start " + f.Unit
		return io.CannotWithHint(goal, err, systemctl+" status "+f.Unit+"; to undo: "+back)
	case c.State == containment.Undecided:
		return io.CannotWithHint(goal, errors.New(c.Reason), c.Remedy)
	case c.State == containment.Uncontained:
		reason := cli.ErrorText(c.Reason)
		fmt.Fprintf(io.Err, "mcpscope: the servers of %s are NOT contained: %s\n", f.Unit, reason)
		io.Hint(c.Remedy)
		return cli.ExitFailure
	}
	return cli.ExitOK
}
