-- How many transactions each user made. State: one row per user.
SELECT user_id, count(*) AS transactions
FROM source
GROUP BY user_id
