// Package timeline keeps games and their lines in Postgres. A [Writer] applies rendered lines, newest wins, and stamps
// what changed with a version of its game; a [Reader] answers pages, changes, snapshots and headers of one tenant.
//
// All SQL about games and lines is here and in package migrations.
package timeline
