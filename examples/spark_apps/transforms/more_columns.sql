-- What the second release writes; the first one had no score.
SELECT id, name, score FROM source
