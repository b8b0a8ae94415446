// Package feed is the vocabulary of the renderer and the law of the wire it reads.
//
// One noun stands for each stage of the flow and one function for each arrow:
//
//	entry --Decode--> Event --render--> Line --Apply--> Change --encode--> Frame
//
//	entry    what a game engine appended to a Valkey stream: an id and a flat list of fields
//	Event    a decoded entry: whose game it is, its EVT id, its kind, its fields      (this package)
//	Line     what one event writes: a base or an amendment of a line, header registers (package render)
//	Change   what a batch of lines altered in a game, with the version it got          (package feed/timeline)
//	Frame    what goes over the doorbell and to the watchers                           (packages feed/broadcast and web)
//
// A stored line is two registers, [Base] and [Amendment], each entered only by a strictly newer write. What the
// line says is [Fold] of the two, used by every read and every push, so the outcome is the same for every order and
// every repetition of the same events.
//
// Two orders exist and are never mixed: the [ID] of a line gives its place, the [Cursor] of a game gives change.
//
// Nothing here does I/O but the [Producer].
package feed
