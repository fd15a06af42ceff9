// SPDX-License-Identifier: Apache-2.0

package ablation

import (
	"fmt"
	"strings"
)

// A mechanism protects a server's stop. Its edits take it out of the product.
type mechanism struct {
	name  string
	edits []edit
	runs  []run  // beside the common cells
	kept  string // the reason to keep it although no test goes red without it
}

// An edit replaces a text that occurs once in a file of the product.
type edit struct{ file, old, new string }

// A run is a choice of the tests of one package.
type run struct {
	pkg     string // its directory
	pattern string // of go test -run
	whole   bool   // with all cells to choose from (MCPSCOPE_TEST_FULL)
}

func without(name string, edits []edit, runs ...run) mechanism {
	return mechanism{name: name, edits: edits, runs: append([]run{common}, runs...)}
}

func (m mechanism) keptFor(reason string) mechanism {
	m.kept = reason
	return m
}

// one is the change of a single text.
func one(file, old, new string) []edit { return []edit{{file, old, new}} }

func both(a, b []edit) []edit { return append(append([]edit(nil), a...), b...) }

// Names of modes, ends and tests are alternatives of a regular expression.

// cells are those of the escape tables of the given backends.
func cells(backends, modes, ends string) run {
	return run{"test/e2e", fmt.Sprintf("^TestEscape$/^(%s)$/^(%s)$/^(%s)$", backends, modes, ends), true}
}

const (
	onCgroup = "cgroup"
	onTree   = "tree"
	onBoth   = "cgroup|tree"
)

func tests(pkg, names string) run { return run{pkg, fmt.Sprintf("^Test(%s)$", names), false} }

var (
	// common are the cells that every mechanism is tried with.
	common      = cells(onBoth, strings.Join(commonModes, "|"), strings.Join(commonEnds, "|"))
	commonModes = strings.Fields("setsid dead-leader ignore-both stop-parent fork-bomb nested move-sibling")
	commonEnds  = strings.Fields("stdin kill superv")
	// faults is the fault table of the backend cgroup, and kills the part in which guards are killed at
	// system calls.
	faults = tests("test/fault", "Faults")
	kills  = run{"test/fault", "^TestFaults$/^cgroup$/^(trace.*|at)$/^(launcher|supervisor)_e/^kill_", false}
)

const (
	lifecycle  = "internal/server/lifecycle/"
	supervisor = "internal/server/supervisor/"
	launcher   = "internal/server/launcher/"
	group      = "internal/server/group/"
)

var (
	noEscaped    = one(supervisor+"end.go", "s.reapEscaped()", "s.reap()")
	noTag        = one(group+"tag.go", "return freeze.NewTag(bits)", "return 0")
	noFreeze     = one("freeze/stop.go", "Freeze(s.Target)", "_ = Freeze")
	noCgroupKill = one("freeze/kill.go", "if g.Kill() == nil {", "if false {")
	noContinued  = one(lifecycle+"awake.go", "func ContinuedBy(fd int) (closed bool, err error) {", "func ContinuedBy(fd int) (closed bool, err error) {\n\treturn false, nil")
	noTimers     = one(lifecycle+"awake.go", "StayAwake(grace time.Duration) {", "StayAwake(grace time.Duration) {\n\treturn")
	anyOwner     = one("freeze/tag.go", "st.UID[savedID] == uid", "st.UID[savedID] >= 0")
	noSparing    = one(group+"tag.go", "Spare: inAnotherGroup(g.Top)", "Spare: nil")
	noDeadline   = one(launcher+"watch.go", "done, err = l.overdue()", "done, err = false, nil")
	noWake       = one(group+"launched.go", "_, _ = freeze.Signal(g.Supervisor, unix.SIGCONT)", "_, _ = freeze.Signal, unix.SIGCONT")
)

const stopping = "stop-parent|stop-parent-late|stop-parent-first|stop-parent-loop|trace-parent|pull-parent"

var mechanisms = []mechanism{
	// processes that notice the reason to stop the server
	without("the supervisor's watch of the launcher",
		one(supervisor+"supervisor.go", "s.lifecycle.End(protocol.LauncherGone)", "_ = protocol.LauncherGone"),
		cells(onBoth, "plain|ignore-both", "killpg|tree|cgroup"), kills),
	without("the launcher's watch of the supervisor",
		[]edit{
			{launcher + "launcher.go", "l.loop.Add(l.pidfd, lifecycle.TokenPeer)", "l.loop.Add(-1, lifecycle.TokenPeer)"},
			{launcher + "receive.go", "if closed {\n\t\treturn true, l.supervisorDied()", "if closed {\n\t\treturn false, nil"},
		},
		cells(onBoth, "kill-parent", "stdin|TERM|superv"), kills),
	without("the watch of stdin",
		one(lifecycle+"client.go", "in.Stdin.FD(): TokenStdin", "-1: TokenStdin"),
		cells(onBoth, "plain|ignore-eof", "stdin|client|exit")),
	without("the watch of stdout",
		one(lifecycle+"client.go", "in.Stdout.FD(): TokenStdout", "-2: TokenStdout"),
		tests("test/e2e", "ClosedStdoutEndsTheServer")),
	without("the wait for unread input",
		one(lifecycle+"client.go", "func (in *ClientSide) unread() bool {", "func (in *ClientSide) unread() bool {\n\treturn false"),
		tests("test/e2e", "UnreadInput.*")),
	without("the wait for a client that reads late",
		one(lifecycle+"client.go", "func (in *ClientSide) blocked() bool {", "func (in *ClientSide) blocked() bool {\n\treturn false"),
		tests("test/e2e", "AnswerToAClientThatReadsLate")),
	without("the client's pidfd",
		one(lifecycle+"client.go", "parent := os.Getppid()", "parent := min(os.Getppid(), 1)"),
		cells(onCgroup, "plain|ignore-eof", "client|exit|tree"), tests("test/e2e", "ClientDies.*")),
	// membership
	without("the subreaper",
		one(lifecycle+"init.go", "PR_SET_CHILD_SUBREAPER, 1,", "PR_SET_CHILD_SUBREAPER, 0,"),
		cells(onBoth, "double-fork|hop|move-main|move-leaving", "stdin|kill")),
	without("the sweep by pidfd of who left the group", noEscaped,
		cells(onCgroup, "nested|move-.*", "stdin|kill"), tests("test/e2e", "NestedRun")),
	without("the inherited tag", noTag, cells(onCgroup, "move-.*", "stdin|kill|superv"),
		tests("test/e2e", "MemberInAForeignPidNamespace|UsurpedGroups"),
		tests("test/gateway", "SweepFindsWhoMovedAway")),
	without("the sweep by pidfd and the inherited tag", both(noEscaped, noTag),
		cells(onCgroup, "move-.*", "stdin|kill|superv")),
	without("the patience with nested supervisors",
		one(supervisor+"escaped.go", "e.killed[pid] || e.spared(pid)", "e.killed[pid]"),
		tests("test/e2e", "NestedRun")),
	without("the guard of a tree",
		one(supervisor+"guard.go", "if childless() {", "if s.exited || childless() {"),
		cells(onTree, "double-fork|hop|kill-parent|move-main", "superv|stdin")),
	without("the pipe by which a guard sees a traced supervisor's death",
		one(supervisor+"guard.go", "protocol.WakeEvery)\n\t\t\ts.exited = true", "protocol.WakeEvery)"),
		cells(onTree, "trace-parent", "superv"), tests("test/e2e", "TracedSupervisorIsKilled")),
	without("the guard's deadline",
		one(supervisor+"guard.go", "late.begin(s.config.Policy)", "_ = late.begin"),
		cells(onTree, stopping, "kill|killpg|tree")),
	without("the supervisor in nobody's process tree",
		one(launcher+"launcher.go", "Group: group, Detach: true,", "Group: group, Detach: false,"),
		cells(onBoth, "plain|ignore-both", "tree|killpg|cgroup"),
		tests("test/e2e", "TransparentEnds")),
	// the kill
	without("the freeze before the kill", noFreeze,
		cells(onBoth, "hop|hop-storm|fork-bomb|pairs|fork-on-term", "stdin"),
		tests("test/e2e", "NobodyWitnessesTheKill")),
	without("cgroup.kill", noCgroupKill,
		cells(onBoth, "hop|hop-storm|fork-bomb|pairs|children-2000", "stdin")).keptFor(
		"one write ends all at once, whatever they fork; the kill by pidfd takes rounds for that"),
	without("cgroup.kill and the freeze", both(noCgroupKill, noFreeze),
		cells(onBoth, "hop|hop-storm|fork-bomb|pairs|children-2000", "stdin")).keptFor(
		"the kill by pidfd, in rounds, is enough for these cells; NobodyWitnessesTheKill needs the freeze"),
	without("SIGKILL by pidfd beside cgroup.kill",
		one("freeze/kill.go", "reached, signalErr := Signal(g, unix.SIGKILL)", "reached, signalErr := Signal(g, unix.Signal(0))"),
		cells(onCgroup, "dead-leader-main|threaded|frozen", "stdin|kill")),
	without("the kill at home, of a tree", one("freeze/end.go", "pass < homePasses &&", "pass < 0 &&"),
		cells(onTree, "hop|hop-storm|fork-bomb|pairs", "stdin|TERM|kill|superv")).keptFor(
		"for machines on which each list of the members is too old; these cells were not that hard"),
	without("the thaw before the asking", one("freeze/stop.go", "_ = s.Target.Thaw()", "_ = s"),
		tests("freeze", "AskReachesWhoIsFrozenOrStopped")),
	without("SIGCONT after the asking",
		one("freeze/stop.go", "Signal(s.Target, s.Ask, unix.SIGCONT)", "Signal(s.Target, s.Ask)"),
		tests("freeze", "AskReachesWhoIsFrozenOrStopped")),
	// whom nothing may happen to
	without("the second look at who is a member",
		one("freeze/signal.go", "open && member && send(fd, sigs)", "open && (member || true) && send(fd, sigs)"),
		tests("freeze", "SignalSparesWhoIsNoMember")),
	without("the owner of who carries a tag", anyOwner, tests("test/e2e", "Forged.*"),
		tests("freeze", ".*")).keptFor(
		"the sparing of other servers does the same for these tests: see the two together"),
	without("the sparing of other servers with the same tag", noSparing, tests("test/e2e", "Forged.*"),
		tests("test/gateway", "Forged.*")).keptFor(
		"the owner does the same for these tests: see the two together"),
	without("the owner and the sparing, of a tag", both(anyOwner, noSparing),
		tests("test/e2e", "Forged.*"), tests("test/gateway", "Forged.*")),
	// a guard that is held
	without("SIGCONT by the control socket", noContinued,
		cells(onBoth, stopping, "stdin|TERM|kill|tree|client")),
	without("the SIGCONT timers", noTimers, cells(onBoth, stopping, "kill|tree|killpg")),
	without("SIGCONT by the control socket and the timers", both(noContinued, noTimers),
		cells(onBoth, stopping, "kill|tree|killpg")),
	without("the launcher's deadline", noDeadline, cells(onBoth, stopping, "stdin|TERM|client"),
		tests("test/e2e", "SupervisorHeldBeforeItsFirstWord")),
	without("the launcher's own SIGCONT", noWake, cells(onBoth, stopping, "stdin|TERM|client")),
	without("tracers kept off",
		one(lifecycle+"awake.go", "unix.PR_SET_DUMPABLE, 0,", "unix.PR_SET_DUMPABLE, 1,"),
		tests("test/e2e", "LauncherKeepsTracersOff"),
		run{"test/systemd", "^TestEscape$/^tester$/^scopes$/^trace-parent$/^(stdin|kill)$", true}),
	without("the check of the supervisor's last word",
		one(launcher+"receive.go", "err := l.verify()", "err := error(nil)")),
	// processes, descriptors and messages
	without("timers that are ready",
		one(lifecycle+"timers.go", "func ReadyTimers() error {", "func ReadyTimers() error {\n\treturn nil"),
		tests("test/e2e", "SupervisorWithoutDescriptors"), faults),
	without("threads in reserve",
		one(lifecycle+"threads.go", "range threadsInReserve {", "range 0 * threadsInReserve {"),
		tests("test/e2e", "ServerThatUsesUpAllProcesses|FewProcesses")),
	without("the refusal of too few processes",
		one(lifecycle+"threads.go", "func EnoughTasks() error {", "func EnoughTasks() error {\n\treturn nil"),
		tests("test/e2e", "FewProcesses")),
	without("a control socket for each direction",
		one("internal/server/protocol/control.go", "*way[0], *way[1] = fds[0], fds[1]", `*way[0], *way[1] = fds[0], fds[1]
		ours.In, _ = unix.FcntlInt(uintptr(fds[0]), unix.F_DUPFD_CLOEXEC, 0)
		theirs.Out, _ = unix.FcntlInt(uintptr(fds[1]), unix.F_DUPFD_CLOEXEC, 0)
		break`),
		faults, tests("test/e2e", "StopAtOnceIsHeard"), tests("test/script", "Scripts")),
	without("who stands by until there is a supervisor",
		one("internal/spawn/standby.go", "func killGroup(s *standby) {", "func killGroup(s *standby) {\n\traw.Exit(0)"),
		kills, cells(onCgroup, stopping, "kill|killpg|tree")),
	without("a stop that waits for a supervisor which is only starting",
		one(launcher+"launcher.go", "l.config.Mask | 1<<(protocol.StopSignal-1)", "l.config.Mask"),
		tests("test/e2e", "StopAtOnceIsHeard")),
	// the group
	without("the copy that removes the group", one(group+"owned.go", "_ = r.Start()", "_ = r"),
		cells(onCgroup, "plain", "kill|killpg|tree|cgroup")),
	without("the lock of the group",
		one(group+"group.go", "if err = g.Payload.TryLock(unix.LOCK_EX); err != nil {", "if err != nil {"),
		tests("test/e2e", "Sweep.*|Squatted.*|NextServer.*")),
	without("the mark of an armed group",
		one(group+"group.go", "{AttrArmed, fmt.Sprint(protocol.ProtocolVersion)},", "{\"user.mcpscope.unused\", fmt.Sprint(protocol.ProtocolVersion)},"),
		tests("test/e2e", "Sweep.*|NextServer.*|UsurpedGroups")),
	without("the sweep at the start of a server",
		one("internal/server/sweep/sweep.go", "if parent == nil {\n\t\treturn func() {}", "if true {\n\t\treturn func() {}"),
		tests("test/e2e", "NextServer.*|UsurpedGroups")),
	without("the mark of a scope that no manager has been asked for",
		one(group+"scope.go", "return err != nil || said != unasked", "return err != nil || said != \"\" || true"),
		tests("test/systemd", "LauncherKilledWhileItAsks")),
	without("the removal of a scope that was only asked for",
		one(group+"owned.go", "case !g.LeftToManager() || g.OnlyAsked():", "case !g.LeftToManager():"),
		tests("test/systemd", "LauncherKilledWhileItAsks")),
	without("the stirring of a scope that was empty before it was one",
		one("internal/server/backend/adopter.go", "\t\t\tstir(g, conn)", "\t\t\t_ = stir")),
	without("the removal of a scope whose end its manager misses",
		one("internal/server/sweep/orphan.go", "return s, g.Parent.Remove(g.Dir)", "return s, nil")),
	without("BindsTo= of a scope",
		one("internal/systemd/scope.go", "all = append(all, dbus.PropBindsTo(s.Client))", "_ = dbus.PropBindsTo"),
		tests("test/systemd", "ScopeEndsWhenItsClientsUnitCrashes|UnitStopEndsAnOrphan")),
	without("the start of a scope without its dependencies",
		one("internal/systemd/scope.go", "mode = \"ignore-dependencies\"; !runs", "mode = failing; !runs"),
		tests("test/systemd", "ServerStartedWhileItsClientsUnitStops|ScopeIsAskedForAfterTheCrash")),
	without("the question whether the unit runs that a scope is bound to",
		one("internal/systemd/scope.go", "return state != \"inactive\" && state != \"failed\", err", "_ = state\n\treturn true, err"),
		tests("test/systemd", "ScopeIsAskedForAfterTheCrash|ClientIsInAScopeThatNoManagerKnows")),
	without("the slice that is started for a scope",
		one("internal/systemd/scope.go", "manager+\".StartUnit\", 0, s.Slice, failing", "manager+\".GetDefaultTarget\", 0"),
		tests("test/systemd", "ManagerRefusesAScope")),
	without("Before= of a scope",
		one("internal/systemd/scope.go", "all = append(all, dbus.PropBefore(s.Client))", "_ = dbus.PropBefore"),
		tests("test/systemd", "ScopeEndsAfterItsClientsUnit")),
	without("KillSignal= of a scope",
		one("internal/systemd/scope.go", "property(\"KillSignal\", int32(s.KillSignal)),", ""),
		tests("test/systemd", "ScopeEnds.*|StopOfTheScope")),
	// differences for the server
	without("job control",
		one(launcher+"receive.go", "l.stopToo(unix.Signal(m.Signal))", "_ = unix.Signal(m.Signal)"),
		tests("test/e2e", "TerminalJobControl|TerminalFullScreen")),
	without("the client's descriptors closed",
		[]edit{
			{launcher + "launcher.go", "_ = linux.ReplaceByNull(0, 1)", "_ = linux.ReplaceByNull"},
			{supervisor + "start.go", "_ = linux.ReplaceByNull(0, 1, 2)", "_ = linux.ReplaceByNull"},
		},
		tests("test/e2e", "OnlyTheServerHoldsItsDescriptors|TransparentHolders|TransparentEnds")),
}
