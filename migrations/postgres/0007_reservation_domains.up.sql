-- As 0006 for the outbox: what one column of reservations may hold is said by its type. The table is read once for it, and not
-- rewritten. What was said of several columns holds by pkg/pgstore, through which alone the table is written: all columns of a
-- late figure are set by one statement, and an end without its event, or with one that its outcome has not, is refused before.
CREATE DOMAIN reservation_name AS text;
CREATE DOMAIN reservation_nanos AS bigint;
CREATE DOMAIN reservation_outcome AS text;
CREATE DOMAIN reservation_own_mode AS text;

ALTER TABLE reservations
    DROP CONSTRAINT reservations_tenant_id_check, DROP CONSTRAINT reservations_reservation_id_check,
    DROP CONSTRAINT reservations_own_nanos_check, DROP CONSTRAINT reservations_held_nanos_check,
    DROP CONSTRAINT reservations_outcome_check, DROP CONSTRAINT reservations_own_mode_check,
    DROP CONSTRAINT reservations_check, DROP CONSTRAINT reservations_check1,
    ALTER tenant_id TYPE reservation_name, ALTER reservation_id TYPE reservation_name, ALTER own_nanos TYPE reservation_nanos, ALTER held_nanos TYPE reservation_nanos,
    ALTER outcome TYPE reservation_outcome, ALTER own_mode TYPE reservation_own_mode;

ALTER DOMAIN reservation_name ADD CHECK (VALUE <> '');
ALTER DOMAIN reservation_nanos ADD CHECK (VALUE >= 0 AND VALUE < 9007199254740992);
ALTER DOMAIN reservation_outcome ADD CHECK (VALUE IN ('settled', 'released', 'expired', 'external'));
ALTER DOMAIN reservation_own_mode ADD CHECK (VALUE IN ('', 'direct', 'journal'));
