// SPDX-License-Identifier: Apache-2.0

//go:build linux

package units

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/settings"
)

type Request struct {
	System, User, Install, Remove, Force, Now bool
	Unit                                      string
}

func (f *Request) Run(operands []string, io cli.Stdio) int {
	files, err := f.choose(operands)
	if errors.As(err, new(*unitError)) {
		return io.Cannot("find the gateway", err)
	}
	if err != nil {
		return io.Mistake("units", err.Error())
	}
	dir, err := f.dir()
	if err != nil {
		return io.Cannot("find the units", err)
	}
	switch {
	case f.Install:
		return f.each(files, dir, io, "install", File.Install)
	case f.Remove:
		return f.each(files, dir, io, "remove", File.Remove)
	}
	for i, file := range files {
		if i > 0 {
			fmt.Fprintln(io.Out)
		}
		fmt.Fprintf(io.Out, "# %s\n%s", cli.OneLine(filepath.Join(dir, file.Name)), file.Text)
	}
	return cli.ExitOK
}

// choose returns the files that are meant. The gateway's is never among all: it is for a
// unit that we don't know.
func (f *Request) choose(names []string) ([]File, error) {
	switch {
	case f.System && f.User:
		return nil, errors.New("--system or --user, not both")
	case f.Install && f.Remove:
		return nil, errors.New("--install or --remove, not both")
	case f.Now && !f.Install && !f.Remove:
		return nil, errors.New("--now is for --install and --remove")
	case f.Unit != "" && !slices.Contains(names, GatewayDropIn):
		return nil, errors.New("--unit is for the gateway's drop-in: mcpscope units gateway --unit UNIT")
	}
	all := All(f.manager(), InstalledPrograms())
	if len(names) == 0 {
		return all, nil
	}
	var meant []File
	for _, name := range names {
		if name == GatewayDropIn {
			file, err := f.gateway()
			if err != nil {
				return nil, err
			}
			meant = append(meant, file)
			continue
		}
		at := slices.IndexFunc(all, func(u File) bool { return u.Name == name })
		if at < 0 {
			return nil, fmt.Errorf("there is no unit %q; there are %s", name, unitNames(all))
		}
		meant = append(meant, all[at])
	}
	return meant, nil
}

// gateway is what the drop-in for a gateway is called.
const GatewayDropIn = "gateway"

func (f *Request) gateway() (File, error) {
	if f.Unit == "" && (f.Install || f.Remove) {
		return File{}, errors.New("the drop-in of which service? Give --unit UNIT")
	}
	unit, err := CheckService(cmp.Or(f.Unit, "NAME"))
	service := Service{Argv: []string{"COMMAND"}, Identifier: "NAME"}
	if err == nil && f.Unit != "" && !f.Remove {
		if service, err = f.serviceOf(unit); err != nil {
			err = &unitError{err}
		}
	}
	if err != nil {
		return File{}, err
	}
	return Gateway(unit, service, InstalledPrograms()), nil
}

// unitError is of a service that can't be a gateway's; it is no mistake in the arguments.
type unitError struct{ error }

func (e *unitError) Unwrap() error { return e.error }

func unitNames(all []File) string {
	var names []string
	for _, u := range all {
		names = append(names, u.Name)
	}
	return strings.Join(append(names, GatewayDropIn), ", ")
}

func (f *Request) manager() Manager {
	if f.System || !f.User && os.Getuid() == 0 {
		return System
	}
	return User
}

// dir is where the administrator's, or the user's own, units are.
func (f *Request) dir() (string, error) {
	if f.manager() == System {
		return "/etc/systemd/system", nil
	}
	dir := settings.UserDir(os.Getenv)
	if dir == "" {
		return "", errors.New("HOME is not set")
	}
	return filepath.Join(dir, "systemd", "user"), nil
}

// each does one thing to all files, and says how it went. What it changed the manager has to be
// told.
func (f *Request) each(files []File, dir string, io cli.Stdio, verb string, do func(File, string, bool) (Result, error)) int {
	status, news := cli.ExitOK, false
	for _, file := range files {
		path := filepath.Join(dir, file.Name)
		result, err := do(file, dir, f.Force)
		switch {
		case errors.Is(err, ErrChanged):
			status = io.Cannot(verb+" "+path, errors.New("it was changed, or is not ours; --force does it nevertheless"))
		case err != nil:
			status = io.Cannot(verb+" "+path, err)
		default:
			fmt.Fprintf(io.Out, "%s %s\n", result, cli.OneLine(path))
			news = news || result != Unchanged && result != Absent
		}
	}
	switch {
	case f.Now && (news || f.Install && status == cli.ExitOK): // what was there before may not have been acted on
		return max(status, f.act(files, io))
	case !news:
		return status
	}
	line, between := "", ""
	for _, step := range f.next(files) {
		line += between + step.String()
		between = step.then
	}
	fmt.Fprintf(io.Out, "now: %s\n", line)
	return status
}

// act enters what else would be said to enter.
func (f *Request) act(files []File, io cli.Stdio) int {
	for _, step := range f.next(files) {
		cmd := exec.Command(step.argv[0], step.argv[1:]...)
		out, err := cmd.CombinedOutput()
		if err != nil && step.then == whatever {
			continue
		}
		if err != nil {
			return io.Cannot(step.String(), fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out))))
		}
		fmt.Fprintf(io.Out, "done: %s\n", step)
	}
	return cli.ExitOK
}

// step is a command to enter, and what stands between it and the next one.
type step struct {
	argv []string
	then string
}

const (
	whatever = "; " // its failure does not matter
	ifDone   = " && "
)

func (s step) String() string { return strings.Join(s.argv, " ") }

// next are the commands that make the manager act on what was installed or removed.
func (f *Request) next(files []File) (steps []step) {
	systemctl := []string{"systemctl"}
	if f.manager() == User {
		systemctl = append(systemctl, "--user")
	}
	add := func(then string, words ...string) {
		steps = append(steps, step{append(slices.Clone(systemctl), words...), then})
	}
	const timer = "mcpscope-sweep.timer"
	timed := f.Unit == "" && slices.ContainsFunc(files, func(u File) bool { return u.Name == timer })
	if timed && f.Remove {
		add(whatever, "stop", timer) // it may never have been started
	}
	add(ifDone, "daemon-reload")
	switch {
	case f.Unit != "" && f.Remove:
		add(ifDone, "try-restart", f.Unit) // a removal starts no service
	case f.Unit != "":
		add(ifDone, "restart", f.Unit)
	case timed && f.Install:
		add(ifDone, "enable", "--now", timer)
	}
	return steps
}
