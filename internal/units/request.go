// SPDX-License-Identifier: Apache-2.0

package units

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/containment"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// Request is one call of mcpscope units. Root's request is for the system manager, all others are for the
// user's.
type Request struct {
	Install, Remove, Now bool
	Unit                 string   // the service of a gateway, or "" for the units of mcpscope
	GatewayFlags         []string // of `mcpscope gateway`, each with its value in one word
}

// Run prints, installs or removes files, and returns the exit status.
func (f *Request) Run(io cli.Stdio) int {
	switch {
	case f.Install && f.Remove:
		return io.Mistake("units", "--install and --remove exclude each other")
	case f.Now && !f.Install && !f.Remove:
		return io.Mistake("units", "--now is for --install and --remove")
	}
	if len(f.GatewayFlags) > 0 {
		if f.Unit == "" || f.Remove {
			return io.Mistake("units", "flags of mcpscope gateway are for --unit UNIT, and not for --remove")
		}
		if _, _, err := settings.Defaults().FromArguments(settings.Gateway, f.GatewayFlags); err != nil {
			return io.Mistake("units", err.Error())
		}
	}
	dir, err := Dir()
	if err != nil {
		return io.Cannot("find the units", err)
	}
	if f.Install || f.Now { // before anything is written
		if err := systemd.Present(systemd.Own()); err != nil {
			return io.CannotWithHint("reach systemd", err, managerHint())
		}
	}
	if f.Unit != "" {
		return f.runGateway(dir, io)
	}
	files := All(systemd.Own(), InstalledPrograms())
	reload := systemctlStep("daemon-reload")
	switch {
	case f.Install:
		enable := systemctlStep("enable", "--now", "mcpscope-sweep.timer")
		return f.each(files, dir, io, "install", File.Install, []step{reload, enable})
	case f.Remove:
		return f.removeOwn(files, dir, io)
	}
	printFiles(files, dir, io)
	return cli.ExitOK
}

// managerHint is a remedy for a user without a manager.
func managerHint() string {
	if systemd.Present(systemd.System) == nil && systemd.Own() == systemd.User {
		return cli.EnableLinger()
	}
	return ""
}

// removeOwn stops the units first: afterwards a metrics service would go on without a file.
func (f *Request) removeOwn(files []File, dir string, io cli.Stdio) int {
	var names []string
	for _, file := range files {
		if _, err := current(filepath.Join(dir, file.Name)); err == nil { // others stay
			names = append(names, file.Name)
		}
	}
	stop := systemctlStep(append([]string{"stop"}, names...)...)
	reload := systemctlStep("daemon-reload")
	if len(names) == 0 || !f.Now {
		stop.mayFail = true // a unit without a file is known while it runs
		return f.each(files, dir, io, "remove", File.Remove, []step{stop, reload})
	}
	if status := runSteps([]step{stop}, io); status != cli.ExitOK {
		return status
	}
	return f.each(files, dir, io, "remove", File.Remove, []step{reload})
}

func printFiles(files []File, dir string, io cli.Stdio) {
	for _, file := range files {
		fmt.Fprintf(io.Out, "# %s\n%s\n", cli.OneLine(filepath.Join(dir, file.Name)), file.Text)
	}
}

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
	file, err := dropIn(s, InstalledPrograms(), f.GatewayFlags...)
	if err != nil {
		return io.Cannot(goal, err)
	}
	if !f.Install {
		printFiles([]File{file}, dir, io)
		return cli.ExitOK
	}
	return f.installDropIn(s, file, dir, io)
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

// installDropIn succeeds with --now only if the servers of the running gateway can be contained.
func (f *Request) installDropIn(s service, file File, dir string, io cli.Stdio) int {
	target, former := filepath.Join(dir, file.Name), File{Name: formerDropInOf(s.Name)}
	if err := former.checkRemovable(dir); err != nil {
		return io.Cannot("replace "+filepath.Join(dir, former.Name), err)
	}
	result, err := file.Install(dir)
	if err != nil {
		return io.Cannot("install "+target, err)
	}
	fmt.Fprintf(io.Out, "%s %s\n", result, cli.OneLine(target))
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
		steps = append(steps, systemctlStep("restart", f.Unit))
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
	if status := runSteps([]step{systemctlStep("restart", f.Unit)}, io); status != cli.ExitOK {
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

// removeDropIn removes the drop-ins of this version and of former ones.
func (f *Request) removeDropIn(unit, dir string, io cli.Stdio) int {
	files := []File{{Name: dropInOf(unit)}}
	if former := (File{Name: formerDropInOf(unit)}); former.exists(dir) {
		files = append(files, former)
	}
	steps := []step{systemctlStep("daemon-reload")}
	s, err := readService(systemd.Own(), unit)
	if err != nil || !(service{Service: s}).isJob() { // without systemd, files are removed and steps printed
		steps = append(steps, systemctlStep("try-restart", f.Unit)) // a removal starts no service
	}
	return f.each(files, dir, io, "remove", File.Remove, steps)
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

// Dir is where the administrator's, or the user's own, units are.
func Dir() (string, error) {
	if systemd.Own() == systemd.System {
		return "/etc/systemd/system", nil
	}
	dir := settings.UserDir(os.Getenv)
	if dir == "" {
		return "", errors.New("HOME is not set")
	}
	return filepath.Join(dir, "systemd", "user"), nil
}

// each installs or removes files. The steps put the result in force.
func (f *Request) each(
	files []File, dir string, io cli.Stdio, verb string, do func(File, string) (Result, error), steps []step,
) int {
	status, changed := cli.ExitOK, false
	for _, file := range files {
		path := filepath.Join(dir, file.Name)
		result, err := do(file, dir)
		if err != nil {
			status = io.Cannot(verb+" "+path, err)
			continue
		}
		fmt.Fprintf(io.Out, "%s %s\n", result, cli.OneLine(path))
		changed = changed || result != Unchanged && result != Absent
	}
	switch {
	case f.Now && (changed || f.Install && status == cli.ExitOK): // an earlier one may not be in force
		if failed := runSteps(steps, io); failed != cli.ExitOK {
			return failed
		}
	case changed:
		fmt.Fprintf(io.Out, "now: %s\n", joinSteps(steps))
	}
	return status
}

func runSteps(steps []step, io cli.Stdio) int {
	for _, s := range steps {
		if err := s.run(); err != nil {
			return io.Cannot(s.String(), err)
		}
		fmt.Fprintf(io.Out, "done: %s\n", s)
	}
	return cli.ExitOK
}

// step is a command that puts files in force.
type step struct {
	argv    []string
	mayFail bool
}

// systemctlStep is a call of systemctl for the manager of this user.
func systemctlStep(args ...string) step {
	argv := []string{"systemctl"}
	if systemd.Own() == systemd.User {
		argv = append(argv, "--user")
	}
	return step{argv: append(argv, args...)}
}

func (s step) run() error {
	cmd := exec.Command(s.argv[0], s.argv[1:]...)
	cmd.Env = managerEnvironment()
	out, err := cmd.CombinedOutput()
	if err != nil && !s.mayFail {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

func (s step) String() string { return strings.Join(s.argv, " ") }

// joinSteps makes a line for a shell. The only special character of a name is the backslash.
func joinSteps(steps []step) string {
	var line strings.Builder
	for i, s := range steps {
		line.WriteString(strings.ReplaceAll(s.String(), `\`, `\\`))
		switch {
		case i == len(steps)-1:
		case s.mayFail:
			line.WriteString("; ")
		default:
			line.WriteString(" && ")
		}
	}
	return line.String()
}
