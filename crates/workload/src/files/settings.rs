/// Defines a configuration. Ranges of keys become part of the schema; `check_ranges` enforces them in order.
macro_rules! settings {
    (
        $(#[$about:meta])*
        pub struct $name:ident {
            $($(#[$key_about:meta])* pub $key:ident: $type:ty = $default:expr $(, $min:literal..=$max:literal)?;)+
        }
    ) => {
        strobe_types::defaults! {
            $(#[$about])*
            #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
            #[serde(deny_unknown_fields, default)]
            pub struct $name {
                $($(#[$key_about])* $(#[schemars(range(min = $min, max = $max))])? pub $key: $type = $default;)+
            }
        }

        impl $name {
            fn check_ranges(&self) -> Result<(), super::FileWorkloadError> {
                $($(super::error::check_range(stringify!($key), self.$key, $min..=$max)?;)?)+
                Ok(())
            }
        }
    };
}
