// Package render makes lines of events: the second arrow of the flow, and the handler that goes through all of it.
//
//	entry --feed.Decode--> Event --Kinds.Render--> Line --Timeline.Apply--> Change --Doorbell.Publish--> watchers
//	  \__________________________________ Worker.Step __________________________________/
//
// # Kinds are data
//
// [LoadKinds] reads what each kind of event looks like from TOML files: the embedded kinds/codemojex.toml, whose head
// explains the vocabulary, and the files of a folder, which add kinds or replace those. Another game needs a file, not a
// release. A kind that stands in no file makes a public line of its bare name, so nothing is dropped; describing it later
// renders such lines anew, since what nobody described has version 0.
//
// [Kinds.Render] is pure: the same event gives the same line, whoever renders it, whenever. What a line gives out is
// decided by its kind's list show and by nothing else in the event. The values travel in the line's base beside the
// pattern and the rules (show, show_only, visibility), and feed.Fold applies those at each read and each push, by the
// game's mode and release at that moment: rendering cannot know them, since a score may come before the event that opened
// its game.
//
// # One batch
//
// [Worker.Step] is the consumer's handler. It has no goroutine of its own and nothing to wait for, so a test drives it a
// batch at a time. Its order is its promise: commit, ring, and only then the verdicts that the consumer acknowledges by. A
// crash anywhere in between repeats the batch, and newer-wins makes the repetition a no-op that rings once more.
//
//	undecodable entry, event that cannot be shown, row the database refuses    a dead letter with its reason, the others go on
//	the store is down, frozen or overloaded                                     unavailable: reading pauses, nothing is counted
//	any other error of the store                                                retried, and counted
//	the doorbell fails                                                          acknowledged: committed is committed
//
// # Games appear by themselves
//
// [Discovery] finds the streams of known tenants in the keyspace and tells the consumer to join them, and to leave those
// of games that are over and at rest.
//
// [Upkeep] lets go of what tenants keep no longer: lines of games long over, and entries that every group has settled.
package render
