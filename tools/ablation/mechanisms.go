// SPDX-License-Identifier: Apache-2.0

package ablation

import (
	"fmt"
	"strings"
)

// A mechanism's edits take it out of the product.
type mechanism struct {
	name  string
	edits []edit
	runs  []run
}

// An edit replaces a text that occurs once in a file of the product.
type edit struct{ file, old, new string }

// A run is a choice of the tests of one package.
type run struct {
	pkg     string // its directory
	pattern string // of go test -run
	whole   bool   // with all cells to choose from (TESTS_FULL)
	core    bool   // what make test runs of the package, without a pattern
}

func without(name string, edits []edit, runs ...run) mechanism {
	return mechanism{name, edits, runs}
}

// one is the change of a single text.
func one(file, old, new string) []edit { return []edit{{file, old, new}} }

func both(a, b []edit) []edit { return append(append([]edit(nil), a...), b...) }

// Names of modes, ends and tests are alternatives of a regular expression.

// cells are those of the escape tables of the given backends.
func cells(backends, modes, ends string) run {
	return run{pkg: "test/e2e", pattern: fmt.Sprintf("^TestEscape$/^(%s)$/^(%s)$/^(%s)$", backends, modes, ends), whole: true}
}

const (
	onCgroup = "cgroup"
	onTree   = "tree"
	onBoth   = "cgroup|tree"
)

func tests(pkg, names string) run { return run{pkg: pkg, pattern: fmt.Sprintf("^Test(%s)$", names)} }

// ends are cases of the guard's own table.
func ends(names string) run {
	return run{pkg: guard, pattern: "^TestEnds$/^(" + strings.ReplaceAll(names, " ", "_") + ")$"}
}

const (
	helper     = "internal/server/helper/"
	clientSide = "internal/server/client/"
	group      = "internal/server/group/"
	guard      = "internal/server/guard/"
	idle       = "internal/server/idle/"
	launcher   = "internal/server/launcher/"
	scope      = "internal/kernel/systemd/manager.go"
)

var (
	noLeftOvers = both(one(guard+"stop.go", "\t\tsendWord(s.launcher, page.WordKill)\n", ""),
		one(guard+"stop.go", "\ts.search.signalEach(unix.SIGKILL)\n", ""))
	noTag     = one(group+"tag.go", "return freeze.NewTag(bits)", "return 0 * freeze.NewTag(bits)")
	anyOwner  = one("freeze/tag.go", "st.UID[savedID] == uid", "st.UID[savedID] >= 0")
	noSparing = one(group+"tag.go", "Spare: inAnotherGroup(m.of.Top())", "Spare: nil")
)

// protecting are the mechanisms of a stop: nothing survives, and nothing else ends.
var protecting = []mechanism{
	// the watches for the server's end
	without("the guard's watch of the launcher", one(guard+"guard.go", "\tcase dead:\n\t\tg.launcherDied()\n", "\tcase dead:\n\t\texit(0)\n"),
		ends("launcher"), tests("test/e2e", "KilledLauncherIsAKilledServer")),
	without("the launcher's watch of the guard", one(guard+"launcher.go", "\t\tl.replaceGuard()\n\tcase l.page", "\tcase l.page"),
		ends("guard"), cells(onCgroup, "plain|kill-guard", "guard|TERM")),
	without("the guard's watch of the main process", one(guard+"events.go", "v.polls[pollMain].Fd = int32(fd)", "closeFD(int32(fd))"),
		tests("test/e2e", "StoppedLauncher")),
	without("the SIGCONT for a stopped launcher", one(guard+"stop.go", "uintptr(on.FD.Launcher), uintptr(unix.SIGCONT)", "uintptr(on.FD.Launcher), 0"),
		ends("stopped launcher"), tests("test/e2e", "StoppedLauncher")),
	without("the watch of stdin", one(guard+"events.go", "v.watchEnd(on, page.StdinClosed, on.FD.Stdin)", "_ = page.StdinClosed"),
		cells(onBoth, "plain|ignore-eof", "stdin|client"), tests("test/e2e", "ServerThatStaysIsAskedOnce")),
	without("the watch of stdout", one(guard+"events.go", "v.watchEnd(on, page.StdoutClosed, on.FD.Stdout)", "_ = page.StdoutClosed"),
		tests("test/e2e", "ClosedStdoutEndsTheServer")),
	without("the client's pidfd", one(clientSide+"client.go", "parent := os.Getppid()", "parent := min(os.Getppid(), 1)"),
		cells(onCgroup, "plain|ignore-eof", "client|exit|tree"), tests("test/e2e", "ClientDies.*")),
	// membership
	without("the subreaper", one(guard+"launcher.go", "sys(unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)\n", "\n"),
		cells(onBoth, "setsid|double-fork|hop|move-main|move-guards", "stdin|guard"), tests("test/e2e", "TransparentHolders")),
	without("the kill of members that left the group", noLeftOvers, cells(onCgroup, "move-sibling|move-root", "stdin"), tests("test/e2e", "NestedRun")),
	without("the inherited tag", noTag, cells(onCgroup, "move-.*", "stdin|kill|guard"),
		tests("test/e2e", "MemberInAForeignPidNamespace|UsurpedGroups"), tests("test/gateway", "SweepFindsWhoMovedAway")),
	// the kill
	without("cgroup.kill", one("freeze/stop.go", "if g.Kill() == nil {", "if false {"),
		tests("freeze", "KillReachesAnotherUsersMember")),
	without("the thaw and SIGCONT for the asking",
		both(one("freeze/stop.go", "_ = frozen.Thaw()", "_ = frozen"), one("freeze/stop.go", "signalMembers(pids, g, sig, unix.SIGCONT)", "signalMembers(pids, g, sig)")),
		tests("freeze", "AskReachesWhoIsFrozenOrStopped")),
	without("the guard's own kill",
		one(guard+"members.go", "func (m *members) kill() { writeChar(m.kills, '1') }", "func (m *members) kill() {}"),
		ends("all helpers die|no helper starts.*|left the group, no helper")),
	// whom nothing may happen to
	without("the second list of members",
		one("freeze/stop.go", "slices.BinarySearch(again, pid); member {", "slices.BinarySearch(again, pid); member || true {"),
		tests("freeze", "SignalSparesWhoIsNoMember")),
	without("the owner and the sparing, of a tag", both(anyOwner, noSparing), tests("test/e2e", "Forged.*"), tests("test/gateway", "Forged.*")),
	without("tracers kept off", one(guard+"start.go", "unix.PR_SET_DUMPABLE, 0, 0, 0, 0); e != 0", "unix.PR_SET_DUMPABLE, 1, 0, 0, 0); e != 0"),
		tests("test/e2e", "LauncherKeepsTracersOff"),
		run{pkg: "test/systemd", pattern: "^TestEscape$/^tester$/^scopes$/^trace-parent$/^(stdin|kill)$", whole: true}),
	// the group
	without("the lock of the group", one(guard+"place.go", "fd, unix.LOCK_EX|unix.LOCK_NB, 0, 0, 0); e != 0 {", "fd, unix.LOCK_UN, 0, 0, 0); e != 0 {"),
		tests("test/e2e", "Sweep.*|Squatted.*|NextServer.*")),
	without("the mark of an armed group",
		one(guard+"place.go", "address(attrArmed), facts", "address(\"user.mcpscope.unused\\x00\"), facts"),
		tests("test/e2e", "Sweep.*|NextServer.*|UsurpedGroups")),
	without("the sweep at the start of a server",
		one("internal/server/sweep/sweep.go", "if parent == nil {\n\t\treturn nil", "if true {\n\t\treturn nil"),
		tests("test/e2e", "NextServer.*|UsurpedGroups")),
	without("BindsTo= and Before= of a scope",
		both(one(scope, "all = append(all, dbus.PropBindsTo(s.Client))", "_ = dbus.PropBindsTo"),
			one(scope, "all = append(all, dbus.PropBefore(s.Client))", "_ = dbus.PropBefore")),
		tests("test/systemd", "ScopeEndsWhenItsClientsUnitCrashes|UnitStopEndsAnOrphan|ScopeEndsAfterItsClientsUnit")),
	without("the start of a scope without its dependencies",
		one(scope, "mode = \"ignore-dependencies\"", "mode = \"fail\""),
		tests("test/systemd", "ServerStartedWhileItsClientsUnitStops|ScopeIsAskedForAfterTheCrash")),
	without("the question whether the unit runs that a scope is bound to",
		one(scope, "return state != \"inactive\" && state != \"failed\", err", "_ = state\n\treturn true, err"),
		tests("test/systemd", "ScopeIsAskedForAfterTheCrash|ClientIsInAScopeThatNoManagerKnows")),
	without("KillSignal= of a scope", one(scope, "property(\"KillSignal\", int32(s.KillSignal)),", ""),
		tests("test/systemd", "ScopeEnds.*|StopOfTheScope")),
}

// unnoticed keep a server from noticing that it is contained, or frozen while it is idle.
var unnoticed = []mechanism{
	without("the wait for unread input",
		one(guard+"unread.go", "func hasInput(on *page.Page) bool {", "func hasInput(on *page.Page) bool {\n\treturn false"),
		tests("test/e2e", "UnreadInput.*")),
	without("the wait for a client that reads late",
		one(guard+"unread.go", "return hasInput(on) || !clientIsDead && isFull(on.FD.Room[0])", "return hasInput(on)"),
		tests("test/e2e", "AnswerToAClientThatReadsLate")),
	// idle servers
	without("the second measurement of a frozen server",
		one(idle+"policy.go", "if isSame && usage.Tied == \"\" && s.Pending() == \"\" && s.Obstacle(usage) == \"\" {", "if isSame || err == nil {"),
		tests("internal/server/idle", "SecondLook")),
	without("the thaw by input", both(one(guard+"events.go", "Thaw.ForInput = true\n\t\tg.wake()\n", "Thaw.ForInput = true\n"),
		one(guard+"guard.go", "\t\tg.wake() // a signal may have come\n", "")),
		tests("test/e2e", "IdleServerAnswers|IdleServerInAMessage")),
	without("the thaw by a signal", both(one(guard+"guard.go", "\t\tg.wake() // a signal may have come\n", ""),
		one(guard+"guard.go", " || g.page.MissedSignal()) {", ") {")),
		tests("test/e2e", "IdleServerGetsSignals")),
	without("the room that a server needs before it is frozen",
		one(idle+"sleeper.go", "in.Blocked() || in.BlockedErrors()", "false"), tests("test/e2e", "FullOutputIsNotIdle")),
	without("the mark of a person's freeze", one(idle+"sleeper.go", "if !Held(s.Group.Payload) {", "if true {"),
		tests("test/e2e", "FreezeOfAnIdleServerStays")),
	// transparency to the server
	without("job control", one(guard+"launcher.go", "\t\tl.Signals.stopToo(sig)\n", "\t\t_ = sig\n"),
		tests("test/e2e", "TerminalJobControl|TerminalFullScreen")),
	without("the client's descriptors closed", one(guard+"live.go", "\tsys(unix.SYS_DUP3, uintptr(null), 0, unix.O_CLOEXEC, 0, 0)\n\tsys(unix.SYS_DUP3, uintptr(null), 1, unix.O_CLOEXEC, 0, 0)\n", ""),
		tests("test/e2e", "OnlyTheServerHoldsItsDescriptors|TransparentHolders|TransparentEnds")),
}
