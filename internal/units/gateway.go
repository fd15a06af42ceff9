// SPDX-License-Identifier: Apache-2.0

package units

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/atomicfile"
	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/programs"
	"github.com/mcpscope/mcpscope/internal/remedy"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// Gateway is the service of a gateway.
type Gateway struct {
	Name        ServiceName
	dir         string // of units
	service     systemd.Service
	override    override // of the installed drop-in, or for a new one
	installed   string   // the text of the drop-in, "" without one
	installedAt time.Time
	isInForce   bool // the manager starts the service by that, and has done so if it runs
}

// ErrOutdated is of a service whose files have changed since they were read.
var ErrOutdated = errors.New("its files have changed")

// FindGateway asks the manager for a service, and reads its drop-in in a directory of units. The manager has
// the command of the service as long as there is no drop-in. Otherwise the drop-in has it; where other files
// of the unit have changed since, the manager has to read them without the drop-in. It does so if mayReload
// is true. Otherwise the error is ErrOutdated.
func FindGateway(name ServiceName, dir string, mayReload bool) (Gateway, error) {
	if err := name.checkNoTemplate(); err != nil {
		return Gateway{}, err
	}
	if err := CheckManager(); err != nil {
		return Gateway{}, err
	}
	c, err := systemd.Connect(systemd.Own())
	if err != nil {
		return Gateway{}, err
	}
	defer c.Close()
	s, err := readService(c, name)
	if err != nil {
		return Gateway{}, err
	}
	g := Gateway{Name: name, dir: dir, isInForce: runsGateway(s) && !startedBefore(s)}
	if s.Outdated && mayReload {
		s, err = reloadAndRead(c, name)
		if err != nil {
			return Gateway{}, err
		}
	}
	g.service = s
	return g, g.findOverride(c, mayReload)
}

func readService(c *systemd.Conn, name ServiceName) (systemd.Service, error) {
	s, err := c.Service(name.Full)
	if errors.Is(err, systemd.ErrNoUnit) {
		err = remedy.With(err, systemctl()+" list-units --type=service")
	}
	return s, err
}

func reloadAndRead(c *systemd.Conn, name ServiceName) (systemd.Service, error) {
	if err := c.Reload(); err != nil {
		return systemd.Service{}, err
	}
	return readService(c, name)
}

// file is the drop-in of the gateway, without its text.
func (g *Gateway) file() File { return File{Name: dropInOf(g.service.Name)} }

// findOverride finds out how the service runs without mcpscope.
func (g *Gateway) findOverride(c *systemd.Conn, mayReload bool) error {
	g.readInstalled()
	if g.installed == "" {
		if g.service.Outdated {
			err := fmt.Errorf("%s: %w since systemd read them", g.service.Name, ErrOutdated)
			return remedy.With(err, ReloadStep().Command)
		}
		var err error
		g.override, err = readOverride(g.service)
		return err
	}
	override, ok := parseOverride(g.installed)
	if !ok || !isSealed(g.installed) {
		return g.file().withHint(fmt.Errorf("%s: %w", g.file().Path(g.dir), ErrChanged), g.dir)
	}
	g.override = override
	if override.Source == sourceOf(g.service) {
		return nil
	}
	if !mayReload {
		err := fmt.Errorf("%s: %w since its drop-in was written", g.service.Name, ErrOutdated)
		return remedy.With(err, "mcpscope units --unit "+cli.Word(g.Name.Entered)+" --install --now")
	}
	return g.readWithoutDropIn(c)
}

// readInstalled reads the drop-in, which may be in another directory of units.
func (g *Gateway) readInstalled() {
	paths := append([]string{g.file().Path(g.dir)}, g.service.DropIns...)
	for _, file := range paths {
		if !isDropInName(file) {
			continue
		}
		info, err := os.Stat(file)
		text, errRead := os.ReadFile(file)
		if err == nil && errRead == nil {
			g.installed = string(text)
			g.installedAt = info.ModTime()
			return
		}
	}
}

// readWithoutDropIn has the manager read the unit without its drop-in, and then with it again.
func (g *Gateway) readWithoutDropIn(c *systemd.Conn) (err error) {
	defer atomicfile.DeferSignals()()
	if err := os.Remove(g.file().Path(g.dir)); err != nil {
		return err
	}
	bare, errRead := reloadAndRead(c, g.Name)
	if err := errors.Join(errRead, g.putBack(), c.Reload()); err != nil {
		return err
	}
	g.service = bare
	flags := g.override.Flags
	g.override, err = readOverride(bare)
	g.override.Flags = flags
	return err
}

// putBack writes the drop-in as it was. A process that it has started is not older than the file then.
func (g *Gateway) putBack() error {
	path := g.file().Path(g.dir)
	if err := atomicfile.Write(path, []byte(g.installed), fileMode); err != nil {
		return err
	}
	return os.Chtimes(path, g.installedAt, g.installedAt)
}

// GatewayFlags are the flags of mcpscope gateway in a drop-in.
type GatewayFlags struct {
	Words []string // each flag with its value in one word
	Kept  bool     // they are those of the drop-in that is replaced
}

// PrintFlags spells flags as a person enters them in a shell.
func PrintFlags(given []string) string {
	var words []string
	for _, flag := range given {
		name, value, _ := strings.Cut(flag, "=")
		words = append(words, name+"="+cli.Word(value))
	}
	return strings.Join(words, " ")
}

// Flags returns the flags for the drop-in. An installation without entered flags, such as one after a change
// of the command, keeps those of the drop-in.
func (g Gateway) Flags(entered []string) (GatewayFlags, error) {
	before := g.override.Flags
	if len(entered) > 0 || len(before) == 0 {
		return GatewayFlags{Words: entered}, nil
	}
	if _, _, err := settings.Defaults().FromArguments(settings.Gateway, before); err != nil {
		const again = "mcpscope units --unit %s --remove --now, then install it again"
		err = fmt.Errorf("keep the flags of its drop-in: %w", err)
		return GatewayFlags{}, remedy.With(err, fmt.Sprintf(again, cli.Word(g.Name.Entered)))
	}
	return GatewayFlags{Words: before, Kept: true}, nil
}

const backendFlag = "--backend="

// keepInGroup adds the flag for a service whose servers have to stay below its control group: a process in a
// scope of its own would lose a sandbox or a limit that an administrator has given the unit. about is a line
// about that. A backend that a person has chosen stays.
func (g Gateway) keepInGroup(flags []string) (kept []string, about string) {
	onGroup := g.service.Settings.OnGroup
	if len(onGroup) == 0 || usesDelegation(flags) {
		return flags, ""
	}
	list := strings.Join(onGroup, "=, ") + "="
	i := slices.IndexFunc(flags, func(flag string) bool { return strings.HasPrefix(flag, backendFlag) })
	if i >= 0 {
		const text = "%s of %s will not act on its servers: with %s they are outside of its group"
		return flags, fmt.Sprintf(text, list, g.service.Name, flags[i])
	}
	flag := backendFlag + string(names.Delegated)
	about = fmt.Sprintf("%s: servers get groups below that of the unit, on which its %s act", flag, list)
	return append([]string{flag}, flags...), about
}

// usesDelegation reports whether flags of mcpscope gateway put its servers below the group of the unit.
func usesDelegation(flags []string) bool {
	return slices.Contains(flags, backendFlag+string(names.Delegated))
}

// runsAsUser reports whether the service of the system manager has a user that is not root. Only root makes
// groups where it likes.
func runsAsUser(s systemd.Service) bool {
	user := s.Settings.User
	named := user != "" && user != "root" && user != "0"
	return systemd.Own() == systemd.System && (s.Settings.DynamicUser || named)
}

// isJob reports whether the service is started when its time has come. systemctl waits for the end of a job
// that it starts.
func isJob(s systemd.Service) bool { return s.Settings.Type == "oneshot" }

// runsGateway reports whether the command that the manager has is `mcpscope gateway`.
func runsGateway(s systemd.Service) bool {
	return slices.ContainsFunc(s.Commands, isGateway)
}

func isGateway(c systemd.Command) bool { return c.IsProgram(programs.Runner, "gateway") }

// startedBefore reports whether there is a main process that is older than the drop-in.
func startedBefore(s systemd.Service) bool {
	if s.Process.PID == 0 {
		return false
	}
	for _, file := range s.DropIns {
		if !isDropInName(file) {
			continue
		}
		info, err := os.Stat(file)
		if err == nil && info.ModTime().After(s.Process.Started) {
			return true
		}
	}
	return false
}

// DropIn is the drop-in of a gateway, with facts for its administrator.
type DropIn struct {
	Gateway    Gateway
	File       File
	Flags      GatewayFlags
	Dropped    []string // the flags of the drop-in that is replaced, and that this one lacks
	GroupNote  string   // where the groups of servers are made, and why; "" if that is as usual
	LogCommand string   // shows the log of the service and of its servers; "" if no command does
	override   override
}

// DropIn returns the drop-in that runs the service's command under mcpscope.
func (g Gateway) DropIn(programs Programs, flags GatewayFlags) DropIn {
	s := g.service
	o := g.override
	words, groupNote := g.keepInGroup(flags.Words)
	isKept := func(flag string) bool { return slices.Contains(words, flag) }
	dropped := slices.DeleteFunc(slices.Clone(o.Flags), isKept)
	o.Flags = words
	needsDelegation := runsAsUser(s) || usesDelegation(words)
	isByUnit := s.Settings.Delegated && !o.Delegates
	o.Delegates = needsDelegation && !isByUnit
	// An author who has the unit's processes survive a stop wants that, e.g. for conversations.
	survive := s.Settings.KillMode == "process" || s.Settings.KillMode == "none"
	o.KillsMixed = needsDelegation && !survive
	return DropIn{
		Gateway:    g,
		File:       o.file(s.Name, programs),
		Flags:      flags,
		Dropped:    dropped,
		GroupNote:  groupNote,
		LogCommand: logCommand(s, o.Identifier),
		override:   o,
	}
}

// logCommand is the command that shows the log of a service and of its servers, or "". Servers in scopes of
// their own are missing in journalctl -u.
func logCommand(s systemd.Service, identifier string) string {
	for _, kind := range s.Settings.Outputs {
		if slices.Contains([]string{"file", "append", "truncate", "null", "tty", "socket"}, kind) {
			return "" // the journal has a part of the output
		}
	}
	return journalctl() + " -t " + cli.Word(identifier)
}

// Path is the path of the drop-in.
func (d DropIn) Path() string { return d.File.Path(d.Gateway.dir) }

// Install writes the drop-in.
func (d DropIn) Install() (Result, error) {
	result, err := d.File.Install(d.Gateway.dir)
	return result, d.withPlace(err)
}

// withPlace adds how a drop-in gets to a host whose directory of units cannot be written, as on NixOS.
func (d DropIn) withPlace(err error) error {
	if !errors.Is(err, unix.EROFS) {
		return err
	}
	const text = "mcpscope units --unit %s prints the drop-in, for another place of units"
	return remedy.With(err, fmt.Sprintf(text, cli.Word(d.Gateway.Name.Entered)))
}

// IsPending reports whether the service has yet to run by the drop-in, which was installed before: nothing
// has restarted it since.
func (d DropIn) IsPending() bool { return !d.Gateway.isInForce || d.Gateway.service.Outdated }

// RemainingSteps put the installed drop-in in force.
func (d DropIn) RemainingSteps() []Step {
	steps := []Step{ReloadStep()}
	if !isJob(d.Gateway.service) {
		steps = append(steps, d.Gateway.Name.tryRestart())
	}
	return steps
}

func (n ServiceName) tryRestart() Step {
	restart := func(c *systemd.Conn) error { return c.TryRestart(n.Full) }
	return step("try-restart "+cli.Word(n.Entered), restart)
}

// CheckInForce returns an error unless the manager starts the service by the drop-in, which it has read.
// Then the drop-in is as before the installation: nothing has been started with the new one.
func (d DropIn) CheckInForce() error {
	c, err := systemd.Connect(systemd.Own())
	if err != nil {
		return err
	}
	defer c.Close()
	s, err := readService(c, d.Gateway.Name)
	if err != nil {
		return err
	}
	if err := d.checkCommand(s); err != nil {
		result, errRestore := d.restore(c, d.Gateway.installed != "")
		return errors.Join(fmt.Errorf("%w; the drop-in was %s", err, result), errRestore)
	}
	return nil
}

// checkCommand compares the command that a manager has with that of the drop-in.
func (d DropIn) checkCommand(s systemd.Service) error {
	want := d.override.words()
	if len(s.Commands) == 1 && runsGateway(s) && slices.Equal(s.Commands[0].Argv[1:], want) {
		return nil
	}
	var commands [][]string
	for _, command := range s.Commands {
		commands = append(commands, command.Argv)
	}
	later := laterDropIns(s)
	if len(later) > 0 {
		const text = "systemd starts %q instead: one of these sorts after %s: %s"
		return fmt.Errorf(text, commands, dropInName, strings.Join(later, ", "))
	}
	return fmt.Errorf("systemd starts %q instead", commands)
}

// laterDropIns are those that apply after ours. They are sorted by their names, in whatever directory.
func laterDropIns(s systemd.Service) (later []string) {
	for _, file := range s.DropIns {
		if path.Base(file) > dropInName {
			later = append(later, file)
		}
	}
	return later
}

// restore makes the drop-in what it was, or removes it, and has the manager read that.
func (d DropIn) restore(c *systemd.Conn, isThere bool) (Result, error) {
	result := Restored
	err := error(nil)
	if isThere {
		err = d.Gateway.putBack()
	} else {
		result, err = d.File.Remove(d.Gateway.dir)
	}
	return result, errors.Join(err, c.Reload())
}
