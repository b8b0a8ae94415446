// Package broadcast is the doorbell between replicas: what one commit changed in a game, told to every process whose
// watchers look at that game, over Valkey's sharded pub/sub.
//
// It is a hint and nothing more. A message may be lost, doubled or overtaken, and a subscription may have been away; a
// listener chains messages by their versions and reads the table where the chain has a gap. What is said here is only
// what everybody may see: hidden lines never enter a message.
//
// Each game has one channel, feed:{tenant}:game, whose hash tag keeps a tenant on one node of a cluster.
package broadcast
