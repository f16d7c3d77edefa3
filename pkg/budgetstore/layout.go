package budgetstore

// Layout is how this build lays a tenant's keys out in Redis: it is raised with every change of what their bytes mean, which
// TestLayout notices. An epoch has one layout, which its row in Postgres names (pgstore.RedisEpoch.Layout): counters of an
// earlier one are made anew as if they were lost, those of a later one are not touched (ADR 0015). So no script compares it.
//
// Three things are the same in every layout, because whoever makes counters anew meets those of others: keys of tenants
// begin with w:{tenant}:, the first 8 bytes of field "{" of key s are the epoch as lua/state.lua has it, and so are field
// "{e" of key n and the text of w:epoch. w:seal, w:kill and w:used: belong to no epoch: one of those that changes gets
// another name.
const Layout = 4
